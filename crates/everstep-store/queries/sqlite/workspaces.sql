-- All workspaces, by name.
-- Served by the unique names of workspaces.
select id, name, options, created_at
from workspaces
order by name
