-- The event that a source has published under an event id.
-- Served by events_by_source (workspace, source, event_id).
select
    workspace, id, topic, source, event_id, at, depth, subject, extensions, replay_of, replay_to, codec, data,
    cursor, matched_workflows, matched_waits, failed, fanned_at
from events
where workspace = :workspace
    and source = :source
    and event_id = :event_id
