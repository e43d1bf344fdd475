-- A link of a namespace.
-- Served by the primary key of links (workspace, id).
select
    id, left_type, left_id, right_type, right_id, relation, change, created_at, updated_at, run_id, step,
    length(attributes), attributes
from links
where workspace = :workspace
    and id = :id
    and namespace = :namespace
