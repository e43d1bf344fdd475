-- Adds a resource.
-- Served by the primary key of resources (workspace, kind, name).
insert into resources (workspace, kind, name, body, created_at, updated_at)
values (:workspace, :kind, :name, :body, :created_at, :updated_at)
