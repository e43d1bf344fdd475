-- Events whose fan-out is not done, of all workspaces, oldest first.
-- Served by events_open (id) where fanned_at is null.
select
    workspace, id, topic, source, event_id, at, depth, subject, extensions, replay_of, replay_to, codec, data,
    cursor, matched_workflows, matched_waits, failed, fanned_at
from events indexed by events_open
where fanned_at is null
    and id > :after
    and id < :before
order by id
limit :limit
