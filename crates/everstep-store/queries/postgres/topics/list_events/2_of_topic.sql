-- Events of a topic in a range of ids, newest first, without their data.
-- Served by events_by_topic (workspace, topic, id). The rows are compared and ordered by topic and id, because the planner
-- otherwise reads events_listed (workspace, id) and filters by topic, where statistics show few topics.
select
    id, topic, source, event_id, at, depth, subject, extensions, replay_of, matched_workflows, matched_waits, failed,
    fanned_at
from events
where workspace = :workspace
    and (topic, id) >= (:topic, :from)
    and (topic, id) < (:topic, :to)
order by topic desc, id desc
limit :limit
