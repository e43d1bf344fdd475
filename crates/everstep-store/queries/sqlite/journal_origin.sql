-- The writer and the time of the last row before a seq that states them.
-- Served by journal_by_seq (run_id, seq).
select writer, at
from journal
where run_id = :run
    and seq < :seq
    and writer <> x''
order by seq desc
limit 1
