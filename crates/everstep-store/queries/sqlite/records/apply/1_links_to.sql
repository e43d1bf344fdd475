-- At most :limit links to an identifier that are to be deleted, without their attributes.
-- Served by links_reversed (workspace, namespace, right_type, right_id, …).
select
    id, left_type, left_id, right_type, right_id, relation, change, created_at, updated_at, run_id, step,
    length(attributes), null
from links
where workspace = :workspace
    and namespace = :namespace
    and right_type = :right_type
    and right_id = :right_id
    and (:relation is null or relation = :relation)
limit :limit
