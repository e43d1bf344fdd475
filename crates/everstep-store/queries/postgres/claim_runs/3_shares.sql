-- The part of a claim that shares :limit places of the server's own lane among workspaces. It is added to 2_server.sql
-- and to tick.sql, before the final select.
-- If not more runs are due than there are places, all of them are claimed, and no workspace is visited. Otherwise a loose
-- index scan visits the workspaces in a circle that begins after :rotation: one probe for each, at most :visits_max, and
-- at most as many workspaces with due runs as there are places. These have equal shares, oldest runs first.
-- The ranges of workspaces are written so that no other index can serve them, whatever the planner estimates.
-- Served by runs_claimable (lane, wake_at, id) where owner is null and ended_at is null; and by
-- runs_claimable_by_workspace (lane, workspace, wake_at, id), which has the same rows without those that are never due.
crowd as materialized (
    select wake_at
    from runs
    where lane = ''
        and owner is null
        and ended_at is null
        and wake_at <= :now
        and format <= :format
        and exists (select from member)
    order by wake_at, id
    offset :limit
    limit 1
),
visit (workspace, wake_at, visits, dues, is_second_round) as (
    select :rotation::uuid, null::bigint, 0, 0, false
    from crowd
    union all
    select
        next.workspace,
        next.wake_at,
        visit.visits + 1,
        visit.dues + (next.wake_at <= :now)::integer,
        next.is_second_round
    from visit
    cross join lateral (
        (
            select runs.workspace, runs.wake_at, visit.is_second_round
            from runs
            where lane = ''
                and owner is null
                and ended_at is null
                and runs.wake_at <> 9223372036854775807
                and runs.workspace > visit.workspace
            order by runs.workspace, runs.wake_at, id
            limit 1
        )
        union all
        (
            select runs.workspace, runs.wake_at, true
            from runs
            where not visit.is_second_round
                and lane = ''
                and owner is null
                and ended_at is null
                and runs.wake_at <> 9223372036854775807
                and runs.workspace >= '00000000-0000-0000-0000-000000000000'
            order by runs.workspace, runs.wake_at, id
            limit 1
        )
        limit 1
    ) as next
    where visit.visits < :visits_max
        and visit.dues < :limit
        and (not next.is_second_round or next.workspace <= :rotation)
),
sharer as materialized (
    select workspace, row_number() over (order by visits) as place, count(*) over () as sharers
    from visit
    where wake_at <= :now
),
share as materialized (
    select run.id
    from sharer
    cross join lateral (
        select id
        from runs
        where lane = ''
            and owner is null
            and ended_at is null
            and wake_at <> 9223372036854775807
            and workspace >= sharer.workspace
            and (workspace, wake_at) <= (sharer.workspace, :now)
            and format <= :format
        order by workspace, wake_at, id
        limit :limit / sharer.sharers + (sharer.place <= :limit % sharer.sharers)::integer
        for update skip locked
    ) as run
)
