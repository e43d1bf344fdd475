-- The oldest inbox rows after :after whose run has not ended and is owned by :node or unowned.
-- Rows of an unowned run without a journal are left out: its start takes them.
-- Served by the primary keys of inbox and runs, and journal_by_seq (run_id, seq).
select id, run_id, input
from inbox
where id > :after
    and (
        select ended_at is null
            and case
                when owner is not null then owner = :node
                when status in ('pending', 'paused') then exists (select from journal where journal.run_id = runs.id)
                else true
            end
        from runs
        where runs.id = inbox.run_id
    )
order by id
limit :limit
