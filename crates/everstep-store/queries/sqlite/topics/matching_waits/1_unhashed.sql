-- Waits for an event that an earlier release has written, by run and step.
-- Served by waits_by_shape (workspace, event, shape_hash, match_hash, run_id, step) where by_topic = 1.
select run_id, step, pattern
from waits
where by_topic = 1
    and workspace = :workspace
    and event = :event
    and shape_hash is null
    and match_hash is null
    and (run_id, step) > (:run, :step)
order by run_id, step
limit :limit
