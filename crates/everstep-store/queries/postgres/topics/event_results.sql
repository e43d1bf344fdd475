-- The results of an event, slice by slice.
-- Served by the primary key of event_results (event, slice).
select slice, codec, results
from event_results
where event = :event
    and slice > :after
    and workspace = :workspace
order by slice
limit :limit
