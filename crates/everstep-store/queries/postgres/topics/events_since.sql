-- Events of a topic after an id and from a time on, oldest first.
-- Served by events_by_topic (workspace, topic, id), compared and ordered by topic and id as in list_events.
select
    workspace, id, topic, source, event_id, at, depth, subject, extensions, replay_of, replay_to, codec, data,
    cursor, matched_workflows, matched_waits, failed, fanned_at
from events
where workspace = :workspace
    and (topic, id) > (:topic, :after)
    and topic <= :topic
    and at >= :since
order by topic, id
limit :limit
