-- At most :limit links to an identifier after a position, by relation and by the type and id of the other side.
-- Served by links_reversed (workspace, namespace, right_type, right_id, relation, left_type, left_id).
select
    id, left_type, left_id, right_type, right_id, relation, change, created_at, updated_at, run_id, step,
    length(attributes)::bigint, attributes
from links
where workspace = :workspace
    and namespace = :namespace
    and right_type = :near_type
    and right_id = :near_id
    and (relation, left_type, left_id) > (:first, :second, :third)
order by relation, left_type, left_id
limit :limit
