-- Deletes at most :limit events with ids before :before whose fan-out is done, with their results. Returns their number.
-- Served by events_listed (workspace, id), which is searched once per workspace, and the primary keys of events
-- (id, workspace) and event_results (event, slice).
with
old as materialized (
    select found.workspace, found.id
    from workspaces
    cross join lateral (
        select workspace, id
        from events
        where events.workspace = workspaces.id
            and events.id < :before
            and events.fanned_at is not null
        order by id
        limit :limit
        for update skip locked
    ) as found
    limit :limit
),
results as (
    delete from event_results
    using old
    where event_results.event = old.id
),
deleted as (
    delete from events
    using old
    where events.id = old.id
        and events.workspace = old.workspace
    returning events.id
)
select count(*)
from deleted
