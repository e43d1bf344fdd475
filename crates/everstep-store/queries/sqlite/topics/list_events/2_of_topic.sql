-- Events of a topic in a range of ids, newest first, without their data.
-- Served by events_by_topic (workspace, topic, id).
select
    id, topic, source, event_id, at, depth, subject, extensions, replay_of, matched_workflows, matched_waits, failed,
    fanned_at
from events indexed by events_by_topic
where workspace = :workspace
    and topic = :topic
    and id >= :from
    and id < :to
order by id desc
limit :limit
