-- Records the idempotency key of a change. A key that is used again after its time is that of the later change.
-- Served by the primary key of workflow_keys (workspace, name, key).
insert into workflow_keys (workspace, name, key, digest, version, at)
values (:workspace, :name, :key, :digest, :version, :at)
on conflict (workspace, name, key) do update
set digest = excluded.digest,
    version = excluded.version,
    at = excluded.at
