-- The changes of a namespace after a number, oldest first.
-- Served by the primary key of store_changes (workspace, namespace, change).
select
    change, at, action, subject, actor, run_id, step, op_key, digest, revision, value_type, value_expires_at, output,
    codec, value
from store_changes
where workspace = :workspace
    and namespace = :namespace
    and change > :after
order by change
