-- The links from an identifier after a position, by the type and id of the other side and by relation.
-- Served by links_have_one_edge (workspace, namespace, left_type, left_id, right_type, right_id, relation).
select
    id, left_type, left_id, right_type, right_id, relation, change, created_at, updated_at, run_id, step,
    length(attributes), attributes
from links
where workspace = :workspace
    and namespace = :namespace
    and left_type = :near_type
    and left_id = :near_id
    and (right_type, right_id, relation) > (:first, :second, :third)
order by right_type, right_id, relation
