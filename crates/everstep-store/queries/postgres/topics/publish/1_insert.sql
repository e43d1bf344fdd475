-- Publishes events, except those whose id is known, or whose source has published their event id before. Returns the ids
-- of those that were written. The rows are in the order of their keys, so that two calls do not deadlock.
-- Served by the primary key of events (id, workspace) and events_by_source (workspace, source, event_id).
insert into events (
    workspace, id, topic, source, event_id, at, depth, subject, extensions, replay_of, replay_to, codec, data
)
select
    workspace, id, topic, source, event_id, at, depth, subject, extensions, replay_of, replay_to, codec, data
from unnest(
    :workspaces::uuid[], :ids::uuid[], :topics::text[], :sources::text[], :event_ids::text[], :at::bigint[],
    :depths::integer[], :subjects::text[], :extensions::bytea[], :replays_of::uuid[], :replays_to::uuid[],
    :codecs::smallint[], :data::bytea[]
) with ordinality as new (
    workspace, id, topic, source, event_id, at, depth, subject, extensions, replay_of, replay_to, codec, data, place
)
order by place
on conflict do nothing
returning id
