-- Changes the status, the wake time and the keys of a run that no node owns and that has no journal.
-- Served by the primary key of runs and journal_by_seq (run_id, seq).
update runs
set status = :after, wake_at = :wake_at, start = coalesce(:start, start)
where id = :run
    and owner is null
    and status = :before
    and not exists (select 1 from journal where run_id = :run)
