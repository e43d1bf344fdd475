-- Deletes at most :limit entries of a run's journal, from the last one: a row may refer to the rows before it.
-- Served by journal_by_seq (run_id, seq).
delete from journal
where rowid in (
    select rowid
    from journal
    where run_id = :run
    order by seq desc
    limit :limit
)
