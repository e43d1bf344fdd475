-- Examines the newest :look runs of one workflow that have not ended and are in one state of their machine, between two
-- positions, newest first. Returns at most :limit: those that match, with the values at some paths of their inputs, and
-- the last one that was examined; each with its place. Inputs with characters that PostgreSQL cannot process are
-- returned completely. Test runs are left out. No more runs are read than the limit needs.
-- Served by runs_in_state (workspace, workflow, state, created_at, id) where state is not null and ended_at is null.
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
    trigger::text, place, is_match, is_last
from (
    select
        id, workflow, version, status, wake_at, error, tags, created_at, ended_at, parent, origin, state, version_no,
        input, trigger, idempotency_key,
        row_number() over newest_first as place,
        lead(id) over newest_first is null as is_last,
        coalesce(
            (cardinality(:statuses::text[]) = 0 or status = any(:statuses::text[]))
            and (:workflow::text is null or workflow = :workflow)
            and (:state::text is null or state = :state)
            and (:version::integer is null or version = :version)
            and (:key::text is null or idempotency_key = :key)
            and (:origin::uuid is null or origin = :origin)
            and (
                :error_code::text is null
                or case when error !~ '\\u0000' then error::json ->> 'code' else left(substring(error from '^\{"code":"([^"\\]*)"'), 200) end = :error_code
            )
            and id between :first_id and :final_id,
            false
        ) as is_match
    from (
        select
            id, workflow, version, status, wake_at, error, tags, created_at, ended_at, parent, origin, state,
            version_no, input, trigger, idempotency_key
        from runs
        where workspace = :workspace
            and (not is_test) is true
            and workflow = :workflow
            and state = :state
            and ended_at is null
            and (created_at, id) < (:before, :before_id)
            and (created_at, id) >= (:last, :last_id)
        order by created_at desc, id desc
        limit :look
    ) as examined
    window newest_first as (order by created_at desc, id desc)
) as numbered
where is_match or is_last
order by created_at desc, id desc
limit :limit
