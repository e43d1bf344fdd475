-- A resource.
-- Served by the primary key of resources (workspace, kind, name).
select name, body, created_at, updated_at
from resources
where workspace = :workspace
    and kind = :kind
    and name = :name
