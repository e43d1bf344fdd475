-- Waits for an event with these hashes, by run and step.
-- Served by waits_by_shape (workspace, event, shape_hash, match_hash, run_id, step) where by_topic = 1.
select run_id, step, pattern
from waits
where by_topic = 1
    and workspace = :workspace
    and event = :event
    and shape_hash = :shape_hash
    and match_hash = :match_hash
    and (run_id, step) > (:run, :step)
order by run_id, step
limit :limit
