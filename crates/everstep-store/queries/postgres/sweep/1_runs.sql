-- Deletes at most :limit ended runs whose retention has passed with their rows, as many inbox rows,
-- written before :hour_ago, of runs that have ended or are missing, and fenced nodes whose lease ended a day ago
-- and that own no runs. Subtracts the runs from the counts.
-- Journals are deleted with their partitions; an entry without its run is never read.
-- Served by runs_expiring (expires_at), the primary keys and inbox_by_run; reads all rows of inbox and nodes.
with
expired as materialized (
    select id
    from runs
    where ended_at is not null
        and expires_at < :now
    order by expires_at
    limit :limit
    for update skip locked
),
swept as (
    delete from runs
    using expired
    where runs.id = expired.id
    returning runs.id, runs.workspace, runs.workflow, runs.status, runs.is_test
),
counted as (
    insert into workflow_counts (workspace, workflow, status, n)
    select workspace, workflow, status, -count(*)
    from swept
    where not is_test
    group by workspace, workflow, status
    order by workspace, workflow, status
    on conflict (workspace, workflow, status) do update
    set n = workflow_counts.n + excluded.n
),
swept_waits as (
    delete from waits
    using expired
    where waits.run_id = expired.id
),
swept_snapshots as (
    delete from snapshots
    using expired
    where snapshots.run_id = expired.id
),
unanswered as materialized (
    select inbox.id
    from expired
    join inbox on inbox.run_id = expired.id
    union
    (
        select inbox.id
        from inbox
        left join runs on runs.id = inbox.run_id
        where inbox.created_at < :hour_ago
            and (runs.id is null or runs.ended_at is not null)
        limit :limit
    )
),
swept_inbox as (
    delete from inbox
    using unanswered
    where inbox.id = unanswered.id
),
swept_nodes as (
    delete from nodes
    where fenced
        and lease_until < (extract(epoch from clock_timestamp()) * 1000000)::bigint - 86400000000
        and not exists (
            select
            from runs
            where runs.owner = nodes.id
        )
)
select count(*)
from swept
