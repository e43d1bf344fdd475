-- Replaces the options of a workspace.
-- Served by the primary key of workspaces.
update workspaces
set options = :options
where id = :id
