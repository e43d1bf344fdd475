-- Deletes a change.
-- Served by the primary key of store_changes (workspace, namespace, change).
delete from store_changes
where workspace = :workspace
    and namespace = :namespace
    and change = :change
