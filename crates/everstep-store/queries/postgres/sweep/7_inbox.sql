-- Deletes at most :limit inbox rows, written before :before, of runs that have ended or are missing.
-- Reads the whole inbox, which holds only unanswered inputs; its runs by primary key.
with unanswered as materialized (
    select inbox.id
    from inbox
    left join runs on runs.id = inbox.run_id
    where inbox.created_at < :before
        and (runs.id is null or runs.ended_at is not null)
    limit :limit
)
delete from inbox
using unanswered
where inbox.id = unanswered.id
