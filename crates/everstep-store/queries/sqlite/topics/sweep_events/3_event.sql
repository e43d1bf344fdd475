-- Deletes an event.
-- Served by the primary key of events (workspace, id).
delete from events
where workspace = :workspace
    and id = :id
