-- Adds a workspace, unless its id or its name exists.
-- Served by the primary key of workspaces and their unique names.
insert into workspaces (id, name, options, created_at)
values (:id, :name, :options, :created_at)
on conflict do nothing
