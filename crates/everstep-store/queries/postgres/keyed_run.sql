-- The run that has an idempotency key.
-- Served by runs_keyed (workspace, idempotency_scope, idempotency_key) where idempotency_key is not null.
select id
from runs
where workspace = :workspace
    and idempotency_scope = :scope
    and idempotency_key = :key
