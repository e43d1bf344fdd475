-- The runs that have the keys of starts: those that fan_out.sql has left out, in the same transaction.
-- Served by runs_keyed (workspace, idempotency_scope, idempotency_key) where idempotency_key is not null.
select start.run, runs.id
from unnest(
    :runs::uuid[], :workspaces::uuid[], :scopes::text[], :keys::text[]
) as start (run, workspace, scope, key)
join runs
    on runs.workspace = start.workspace
    and runs.idempotency_scope = start.scope
    and runs.idempotency_key = start.key
