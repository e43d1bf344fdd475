-- Replaces the body of a resource.
-- Served by the primary key of resources (workspace, kind, name).
update resources
set body = :body, updated_at = :updated_at
where workspace = :workspace
    and kind = :kind
    and name = :name
