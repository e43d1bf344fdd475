-- An event with the state of its fan-out.
-- Served by the primary key of events (workspace, id).
select
    workspace, id, topic, source, event_id, at, depth, subject, extensions, replay_of, replay_to, codec, data,
    cursor, matched_workflows, matched_waits, failed, fanned_at
from events
where workspace = :workspace
    and id = :id
