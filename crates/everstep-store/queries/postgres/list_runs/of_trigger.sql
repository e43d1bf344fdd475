-- At most :limit runs that a trigger with an id has started, between two positions, newest first, with the values at some paths
-- of their inputs; inputs with characters that PostgreSQL cannot process are returned completely. Test runs are left out.
-- Served by runs_by_trigger (workspace, trigger ->> 'id', created_at, id) where trigger is not null; "is true" prevents
-- the use of other indexes.
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
from runs
where workspace = :workspace
    and trigger is not null
    and trigger ->> 'id' = :trigger
    and trigger ->> 'type' = :trigger_type
    and (not is_test) is true
    and (:workflow::text is null or workflow = :workflow)
    and (:parent::uuid is null or parent = :parent)
    and (created_at, id) < (:before, :before_id)
    and (created_at, id) >= (:last, :last_id)
    and (cardinality(:statuses::text[]) = 0 or status = any(:statuses::text[]))
    and (:state::text is null or state = :state)
    and (:version::integer is null or version = :version)
    and (:key::text is null or idempotency_key = :key)
    and (:origin::uuid is null or origin = :origin)
    and (
        :error_code::text is null
        or case when error !~ '\\u0000' then error::json ->> 'code' else left(substring(error from '^\{"code":"([^"\\]*)"'), 200) end = :error_code
    )
    and (id between :first_id and :final_id) is true
order by created_at desc, id desc
limit :limit
