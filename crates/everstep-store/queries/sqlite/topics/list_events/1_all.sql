-- Events of a workspace in a range of ids, newest first.
-- Served by the primary key of events (workspace, id).
select
    workspace, id, topic, source, event_id, at, depth, subject, extensions, replay_of, replay_to, codec, data,
    cursor, matched_workflows, matched_waits, failed, fanned_at
from events
where workspace = :workspace
    and id >= :from
    and id < :to
order by id desc
limit :limit
