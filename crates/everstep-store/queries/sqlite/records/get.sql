-- A record with its value, whether it has expired or not.
-- Served by the primary key of records (workspace, namespace, key).
select
    key, id, revision, change, bytes, value_type, expires_at, created_at, updated_at, run_id, step, codec, value
from records
where workspace = :workspace
    and namespace = :namespace
    and key = :key
