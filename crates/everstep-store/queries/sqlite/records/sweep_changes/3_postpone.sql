-- Postpones the deletion of a change.
-- Served by the primary key of store_changes (workspace, namespace, change).
update store_changes
set expires_at = :later
where workspace = :workspace
    and namespace = :namespace
    and change = :change
