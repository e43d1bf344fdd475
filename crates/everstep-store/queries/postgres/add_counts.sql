-- Adds to the numbers of workflows' runs in each status, and to the figures of minutes, in the order of their keys.
-- Served by the primary keys of workflow_counts (workspace, workflow, status) and run_stats (workspace, minute, workflow).
with counted as (
    insert into workflow_counts (workspace, workflow, status, n)
    select :workspace, workflow, status, sum(n)::bigint
    from unnest(:workflows::text[], :statuses::text[], :numbers::bigint[]) as delta (workflow, status, n)
    group by workflow, status
    order by workflow, status
    on conflict (workspace, workflow, status) do update
    set n = workflow_counts.n + excluded.n
)
insert into run_stats (workspace, minute, workflow, started, completed, failed, cancelled, durations)
select :workspace, minute, workflow, started, completed, failed, cancelled, durations::bigint[]
from unnest(
    :minutes::bigint[], :stat_workflows::text[], :started::bigint[], :completed::bigint[], :failed::bigint[],
    :cancelled::bigint[], :durations::text[]
) as stats (minute, workflow, started, completed, failed, cancelled, durations)
order by minute, workflow
on conflict (workspace, minute, workflow) do update
set started = run_stats.started + excluded.started,
    completed = run_stats.completed + excluded.completed,
    failed = run_stats.failed + excluded.failed,
    cancelled = run_stats.cancelled + excluded.cancelled,
    durations = (
        select array_agg(stored + added order by place)
        from unnest(run_stats.durations, excluded.durations) with ordinality as bucket (stored, added, place)
    )
