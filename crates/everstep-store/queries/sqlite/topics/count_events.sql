-- The number of events of a topic from one time to another, counted to a limit.
-- Served by events_by_topic (workspace, topic, id), of which it reads at most :limit rows.
select count(*)
from (
    select 1
    from events
    where workspace = :workspace
        and topic = :topic
        and id >= :from
        and id < :to
    order by id
    limit :limit
) as counted
