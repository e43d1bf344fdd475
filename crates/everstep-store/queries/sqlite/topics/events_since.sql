-- Events of a topic after an id and from a time on, oldest first.
-- Served by events_by_topic (workspace, topic, id).
select
    workspace, id, topic, source, event_id, at, depth, subject, extensions, replay_of, replay_to, codec, data,
    cursor, matched_workflows, matched_waits, failed, fanned_at
from events indexed by events_by_topic
where workspace = :workspace
    and topic = :topic
    and id > :after
    and at >= :since
order by id
limit :limit
