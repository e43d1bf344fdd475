-- The oldest inbox rows after :after whose run has not ended and is owned by :node or unowned.
-- Served by the primary keys of inbox and runs.
select inbox.id, inbox.run_id, inbox.input
from inbox
cross join runs on runs.id = inbox.run_id
where inbox.id > :after
    and runs.ended_at is null
    and (runs.owner is null or runs.owner = :node)
order by inbox.id
limit :limit
