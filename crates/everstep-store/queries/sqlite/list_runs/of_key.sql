-- At most :limit runs of a workspace with an idempotency key, before a position, newest first. Test runs are left out.
-- Served by runs_keyed (workspace, idempotency_scope, idempotency_key), which is searched once per scope.
with recursive scopes (scope) as (
    select (
        select idempotency_scope
        from runs indexed by runs_keyed
        where workspace = :workspace
            and idempotency_key is not null
        order by idempotency_scope
        limit 1
    )
    union all
    select (
        select runs.idempotency_scope
        from runs indexed by runs_keyed
        where runs.workspace = :workspace
            and runs.idempotency_key is not null
            and runs.idempotency_scope > scopes.scope
        order by runs.idempotency_scope
        limit 1
    )
    from scopes
    where scopes.scope is not null
)
select
    id, workflow, version, status, wake_at, error, tags, created_at, ended_at, parent, origin,
    state, version_no, input, idempotency_key, trigger
from scopes
cross join runs indexed by runs_keyed
    on runs.workspace = :workspace
    and runs.idempotency_scope = scopes.scope
    and runs.idempotency_key = :key
where is_test = 0
    and (created_at, id) < (:before, :before_id)
    and created_at >= :since
order by created_at desc, id desc
limit :limit
