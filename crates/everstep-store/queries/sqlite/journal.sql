-- At most :limit entries of a run after a seq, in order. A negative limit is no limit.
-- Served by journal_by_seq (run_id, seq).
select seq, at, writer, commit_id, kind, step, attempt, codec, payload
from journal
where run_id = :run
    and seq > :after
order by seq
limit :limit
