-- The oldest inbox rows after :after whose run has not ended and is owned by :node or unowned.
-- Served by the primary keys of inbox and runs.
select id, run_id, input
from inbox
where id > :after
    and (
        select ended_at is null and (owner is null or owner = :node)
        from runs
        where runs.id = inbox.run_id
    )
order by id
limit :limit
