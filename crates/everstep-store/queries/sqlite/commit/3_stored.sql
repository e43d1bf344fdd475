-- The proposal that wrote an entry: how a refused head is told from a resent one.
-- Served by journal_by_seq (run_id, seq).
select commit_id
from journal
where run_id = :run
    and seq = :seq
