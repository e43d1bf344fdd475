-- The oldest inbox rows after :after whose run has not ended and is owned by :node or unowned.
-- Rows of an unowned run without a journal are left out: its start takes them.
-- Served by the primary keys of inbox and runs, and journal_by_seq (run_id, seq).
select inbox.id, inbox.run_id, inbox.input
from inbox
cross join runs on runs.id = inbox.run_id
where inbox.id > :after
    and runs.ended_at is null
    and case
        when runs.owner is not null then runs.owner = :node
        when runs.status in ('pending', 'paused') then exists (select 1 from journal where journal.run_id = runs.id)
        else 1
    end
order by inbox.id
limit :limit
