-- Replaces the results of slices that fan_out.sql has written in the same transaction, which holds the rows of the events.
-- Served by the primary keys of events (id, workspace) and event_results (event, slice).
update event_results
set codec = new.codec,
    results = new.results
from unnest(
    :events::uuid[], :workspaces::uuid[], :codecs::smallint[], :results::bytea[]
) as new (event, workspace, codec, results)
join events on events.id = new.event and events.workspace = new.workspace
where event_results.event = new.event
    and event_results.slice = events.slices
