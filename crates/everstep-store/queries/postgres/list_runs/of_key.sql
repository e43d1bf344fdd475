-- At most :limit runs with an idempotency key between two positions, newest first, with the values at some paths
-- of their inputs; inputs with characters that PostgreSQL cannot process are returned completely. Test runs are left out.
-- Served by runs_keyed (workspace, idempotency_scope, idempotency_key), which is searched once per scope: the limit in the
-- join, which is that of a unique index, prevents another order of the loops.
with recursive scopes (scope) as (
    (
        select idempotency_scope
        from runs
        where workspace = :workspace
            and idempotency_key is not null
        order by idempotency_scope
        limit 1
    )
    union all
    select (
        select runs.idempotency_scope
        from runs
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
    id, workflow, version, status, wake_at, error, tags::text, created_at, ended_at, parent, origin,
    state, version_no,
    case
        when cardinality(:paths::text[]) = 0 then null
        when :whole or getdatabaseencoding() <> 'UTF8' or input::text ~ '\\u(0000|[dD])' then input::text
    end,
    case
        when cardinality(:paths::text[]) = 0 then null
        when :whole or getdatabaseencoding() <> 'UTF8' or input::text ~ '\\u(0000|[dD])' then null
        else (
            select array_agg((input #> path::text[])::text order by place)
            from unnest(:paths::text[]) with ordinality as looked_for (path, place)
        )
    end,
    trigger::text
from scopes
cross join lateral (
    select
        id, workflow, version, status, wake_at, error, tags, created_at, ended_at, parent, origin, state, version_no,
        input, trigger, is_test
    from runs
    where workspace = :workspace
        and idempotency_scope = scopes.scope
        and idempotency_key = :key
    limit 1
) as found
where not is_test
    and (:workflow::text is null or workflow = :workflow)
    and (:parent::uuid is null or parent = :parent)
    and (created_at, id) < (:before, :before_id)
    and (created_at, id) >= (:last, :last_id)
    and (cardinality(:statuses::text[]) = 0 or status = any(:statuses::text[]))
    and (:state::text is null or state = :state)
    and (:version::integer is null or version = :version)
    and (:origin::uuid is null or origin = :origin)
    and (
        :error_code::text is null
        or case when error !~ '\\u0000' then error::json ->> 'code' else left(substring(error from '^\{"code":"([^"\\]*)"'), 200) end = :error_code
    )
    and id between :first_id and :final_id
order by created_at desc, id desc
limit :limit
