-- Deletes a test run that has ended with all its rows. Returns the number of runs.
-- Served by the primary keys of runs, waits and snapshots, inbox_by_run and journal_by_seq (run_id, seq).
with
deleted as (
    delete from runs
    where id = :run
        and workspace = :workspace
        and is_test
        and ended_at is not null
    returning id
),
deleted_waits as (
    delete from waits
    using deleted
    where waits.run_id = deleted.id
),
deleted_snapshots as (
    delete from snapshots
    using deleted
    where snapshots.run_id = deleted.id
),
deleted_inbox as (
    delete from inbox
    using deleted
    where inbox.run_id = deleted.id
),
deleted_journal as (
    delete from journal
    where run_id = :run
        and exists (select from deleted)
)
select count(*)
from deleted
