-- The proposal that wrote an entry: it distinguishes a rejected head from a resent one.
-- Served by journal_by_seq (run_id, seq).
select commit_id
from journal
where run_id = :run
    and seq = :seq
