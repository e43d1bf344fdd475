-- A link of a namespace.
-- Served by the primary key of links (id, workspace).
select
    id, left_type, left_id, right_type, right_id, relation, change, created_at, updated_at, run_id, step,
    length(attributes)::bigint, attributes
from links
where id = :id
    and workspace is not distinct from :workspace
    and namespace is not distinct from :namespace
