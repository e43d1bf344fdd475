-- Publishes an event, unless its id is known, or its source has published its event id before.
-- Served by the primary key of events (workspace, id) and events_by_source (workspace, source, event_id).
-- Bound by position.
insert into events (
    workspace, id, topic, source, event_id, at, fanned_at, depth, subject, extensions, replay_of, replay_to, codec, data
)
values (
    :workspace, :id, :topic, :source, :event_id, :at, :fanned_at, :depth, :subject, :extensions, :replay_of,
    :replay_to, :codec, :data
)
on conflict do nothing
