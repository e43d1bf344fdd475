-- Deletes at most :limit ended runs whose retention has passed, with their rows, and subtracts them from the counts.
-- Returns their number.
-- Journals are deleted with their partitions; an entry without its run is never read.
-- Served by runs_expiring (expires_at), the primary keys and inbox_by_run (run_id, id).
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
swept_terms as (
    delete from run_terms
    using expired
    where run_terms.run = expired.id
),
swept_snapshots as (
    delete from snapshots
    using expired
    where snapshots.run_id = expired.id
),
swept_inbox as (
    delete from inbox
    using expired
    where inbox.run_id = expired.id
)
select count(*)
from swept
