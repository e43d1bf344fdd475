-- Deletes a resource.
-- Served by the primary key of resources (workspace, kind, name).
delete from resources
where workspace = :workspace
    and kind = :kind
    and name = :name
