-- Writes a link as it is after the batch. A link keeps its id, its sides and its relation.
-- Served by the primary key of links (workspace, id).
insert into links (
    workspace, id, namespace, left_type, left_id, right_type, right_id, relation, change, created_at, updated_at, run_id,
    step, attributes
)
values (
    :workspace, :id, :namespace, :left_type, :left_id, :right_type, :right_id, :relation, :change, :created_at,
    :updated_at, :run, :step, :attributes
)
on conflict (workspace, id) do update
set change = excluded.change,
    updated_at = excluded.updated_at,
    run_id = excluded.run_id,
    step = excluded.step,
    attributes = excluded.attributes
