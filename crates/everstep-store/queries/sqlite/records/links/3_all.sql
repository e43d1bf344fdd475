-- The links of a namespace after a position, by both sides and by relation.
-- Served by links_have_one_edge (workspace, namespace, left_type, left_id, right_type, right_id, relation).
select
    id, left_type, left_id, right_type, right_id, relation, change, created_at, updated_at, run_id, step,
    length(attributes), attributes
from links
where workspace = :workspace
    and namespace = :namespace
    and (left_type, left_id, right_type, right_id, relation)
        > (:left_type, :left_id, :right_type, :right_id, :relation)
order by left_type, left_id, right_type, right_id, relation
