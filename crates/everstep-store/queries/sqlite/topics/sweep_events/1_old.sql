-- Events that were published before an id and whose fan-out is done.
-- Served by the primary key of events (workspace, id), which is searched once per workspace.
select events.workspace, events.id
from workspaces
cross join events on events.workspace = workspaces.id
where events.id < :before
    and events.fanned_at is not null
limit :limit
