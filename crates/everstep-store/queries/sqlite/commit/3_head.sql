-- Appends an item's first entry, only if the run has the expected owner (null: none) and the seq is free.
-- Served by the primary key of runs, journal_by_seq (run_id, seq) and journal_by_attempt.
-- Bound by position: the parameters up to :payload have the same order as in 4_entry.
-- "or rollback": rejected data ends the transaction, as it would in any case, and saves the statement a journal
-- of its own (a sixth of a commit's time).
insert or rollback into journal (run_id, seq, writer, commit_id, at, kind, step, attempt, codec, payload)
select :run, :seq, :writer, :commit, :at, :kind, :step, :attempt, :codec, :payload
from runs
where id = :run
    and owner is :expected
on conflict do nothing
