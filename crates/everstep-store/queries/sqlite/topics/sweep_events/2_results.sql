-- Deletes the results of an event.
-- Served by the primary key of event_results (event, slice).
delete from event_results
where event = :id
