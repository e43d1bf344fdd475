-- Copies the entries of a run up to a seq. The first one may get another payload.
-- Served by journal_by_seq (run_id, seq).
insert into journal (run_id, seq, writer, commit_id, at, kind, step, attempt, codec, payload)
select
    :run, seq, writer, commit_id, at, kind, step, attempt,
    case seq when 1 then coalesce(:first_codec, codec) else codec end,
    case seq when 1 then coalesce(:first_payload, payload) else payload end
from journal
where run_id = :source
    and seq <= :last
order by seq
