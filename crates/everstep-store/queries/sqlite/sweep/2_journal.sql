-- Deletes at most :limit entries of a run's journal.
-- Served by journal_by_seq (run_id, seq).
delete from journal
where rowid in (
    select rowid
    from journal
    where run_id = :run
    limit :limit
)
