-- The number of events whose fan-out is not done.
-- Served by events_open (id) where fanned_at is null.
select count(*)
from events indexed by events_open
where fanned_at is null
