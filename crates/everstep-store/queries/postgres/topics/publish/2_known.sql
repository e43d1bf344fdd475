-- The events that sources have published under event ids, with the places of the keys.
-- Served by events_by_source (workspace, source, event_id).
select
    events.workspace, events.id, events.topic, events.source, events.event_id, events.at, events.depth,
    events.subject, events.extensions, events.replay_of, events.replay_to, events.codec, events.data,
    events.cursor, events.matched_workflows, events.matched_waits, events.failed, events.fanned_at, wanted.place
from unnest(:workspaces::uuid[], :sources::text[], :event_ids::text[]) with ordinality
    as wanted (workspace, source, event_id, place)
join events
    on events.workspace = wanted.workspace
    and events.source = wanted.source
    and events.event_id = wanted.event_id
order by wanted.place
