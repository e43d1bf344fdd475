-- Deletes at most :limit idempotency keys of changes of workflows that are older than :before.
-- Served by workflow_keys_by_time (at) and the primary key of workflow_keys (workspace, name, key).
delete from workflow_keys
where (workspace, name, key) in (
    select workspace, name, key
    from workflow_keys
    where at < :before
    order by at
    limit :limit
)
