-- Adds a resource, or replaces the body of an existing one. Returns whether it is new: only a new row has no older
-- version.
-- Served by the primary key of resources (workspace, kind, name).
insert into resources (workspace, kind, name, body, created_at, updated_at)
values (:workspace, :kind, :name, :body, :created_at, :updated_at)
on conflict (workspace, kind, name) do update
set body = excluded.body, updated_at = excluded.updated_at
returning xmax = 0
