-- Whether a run waits for the events of a topic.
-- Served by waits_by_shape (workspace, event, shape_hash, match_hash, run_id, step) where by_topic = 1.
select 1
from waits
where by_topic = 1
    and workspace = :workspace
    and event = :event
limit 1
