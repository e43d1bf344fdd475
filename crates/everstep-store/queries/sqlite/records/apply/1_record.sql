-- A record for a batch of ops, with the number of its row; its value only if it has at most :value_bytes bytes.
-- Served by the primary key of records (workspace, namespace, key).
select
    key, id, revision, change, bytes, value_type, expires_at, created_at, updated_at, run_id, step, codec,
    case when bytes <= :value_bytes then value end, rowid
from records
where workspace = :workspace
    and namespace = :namespace
    and key = :key
