-- Appends an entry after an item's head. A seq that exists is an error, and the item a conflict.
-- Served by journal_by_seq (run_id, seq) and journal_by_attempt.
-- Bound by position: the parameters have the same order as in 3_head.
insert into journal (run_id, seq, writer, commit_id, at, kind, step, attempt, codec, payload)
values (:run, :seq, :writer, :commit, :at, :kind, :step, :attempt, :codec, :payload)
