-- At most :limit open waits for an event, oldest run first.
-- Served by waits_by_event (workspace, event, run_id, step).
select run_id, step, event, deadline, pattern
from waits
where workspace = :workspace
    and event = :event
order by run_id, step
limit :limit
