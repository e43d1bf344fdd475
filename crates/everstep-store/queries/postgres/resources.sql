-- At most :limit resources of a kind after a name, by name.
-- Served by the primary key of resources (workspace, kind, name).
select name, body, created_at, updated_at
from resources
where workspace = :workspace
    and kind = :kind
    and name > :after
order by name
limit :limit
