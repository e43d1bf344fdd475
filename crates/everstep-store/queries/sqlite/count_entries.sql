-- Counts all entries. For tests: it reads the whole index.
-- Served by journal_by_seq (run_id, seq).
select count(*)
from journal
