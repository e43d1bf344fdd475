-- Deletes the idempotency keys of a workflow's changes: the same requests may create it again.
-- Served by the primary key of workflow_keys (workspace, name, key).
delete from workflow_keys
where workspace = :workspace
    and name = :name
