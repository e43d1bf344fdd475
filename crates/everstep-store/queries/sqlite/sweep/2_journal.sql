-- Deletes a run's journal.
-- Served by journal_by_seq (run_id, seq).
delete from journal
where run_id = :run
