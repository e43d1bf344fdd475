-- All waits for an event that have hashes, after a position: they have more shapes than are worth a search each.
-- Served by waits_by_shape (workspace, event, shape_hash, match_hash, run_id, step) where by_topic = 1.
select run_id, step, pattern, shape_hash, match_hash
from waits
where by_topic = 1
    and workspace = :workspace
    and event = :event
    and shape_hash >= :from
    and (shape_hash, match_hash, run_id, step) > (:shape_hash, :match_hash, :run, :step)
order by shape_hash, match_hash, run_id, step
limit :limit
