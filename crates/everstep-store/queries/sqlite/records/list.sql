-- The records of a namespace from a key on, except :after, by key; with their values if :values.
-- Served by the primary key of records (workspace, namespace, key). One lower bound only: of two, SQLite begins at one and
-- examines every key up to the other.
select
    key, id, revision, change, bytes, value_type, expires_at, created_at, updated_at, run_id, step, codec,
    case when :values then value end
from records
where workspace = :workspace
    and namespace = :namespace
    and key >= :from
    and key <> :after
order by key
