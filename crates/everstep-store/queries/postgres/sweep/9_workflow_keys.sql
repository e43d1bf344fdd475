-- Deletes at most :limit idempotency keys of changes of workflows that are older than :before. Returns their number.
-- Served by workflow_keys_by_time (at) and the primary key of workflow_keys (workspace, name, key).
with
old as materialized (
    select workspace, name, key
    from workflow_keys
    where at < :before
    order by at
    limit :limit
    for update skip locked
),
deleted as (
    delete from workflow_keys
    using old
    where workflow_keys.workspace = old.workspace
        and workflow_keys.name = old.name
        and workflow_keys.key = old.key
    returning workflow_keys.key
)
select count(*)
from deleted
