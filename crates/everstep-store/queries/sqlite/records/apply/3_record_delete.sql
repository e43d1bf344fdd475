-- Deletes a record.
-- Served by the primary key of records (workspace, namespace, key).
delete from records
where workspace = :workspace
    and namespace = :namespace
    and key = :key
