-- Copies the entries of a run up to a seq.
-- Served by journal_by_seq (run_id, seq).
insert into journal (run_id, seq, writer, commit_id, at, kind, step, attempt, codec, payload)
select :run, seq, writer, commit_id, at, kind, step, attempt, codec, payload
from journal
where run_id = :source
    and seq <= :last
order by seq
