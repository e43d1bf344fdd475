-- The number of events of a topic from one time to another, counted to a limit.
-- Served by events_by_topic (workspace, topic, id), compared and ordered by topic and id as in list_events; it reads at
-- most :limit rows.
select count(*)
from (
    select 1
    from events
    where workspace = :workspace
        and (topic, id) >= (:topic, :from)
        and (topic, id) < (:topic, :to)
    order by topic, id
    limit :limit
) as counted
