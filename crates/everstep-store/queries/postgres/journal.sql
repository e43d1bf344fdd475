-- At most :limit entries of an existing run after a seq, in order. Remaining entries of a deleted run are not visible.
-- Served by journal_by_seq (run_id, seq) and the primary key of runs.
select seq, at, writer, commit_id, kind, step, attempt, codec, payload
from journal
where run_id = :run
    and seq > :after
    and exists (
        select
        from runs
        where id = :run
    )
order by seq
limit :limit
