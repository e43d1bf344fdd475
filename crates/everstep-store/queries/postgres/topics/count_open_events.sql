-- The number of events whose fan-out is not done.
-- Served by events_open (id) where fanned_at is null.
select count(*)
from events
where fanned_at is null
