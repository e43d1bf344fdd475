-- Events of a topic after an id and from a time on, oldest first, up to about :bytes bytes of stored data. The last column
-- is the number of events without the limit of bytes.
-- Served by events_by_topic (workspace, topic, id), compared and ordered by topic and id as in list_events. Data beyond
-- the limit of bytes are not read.
select
    workspace, id, topic, source, event_id, at, depth, subject, extensions, replay_of, replay_to, codec, data,
    cursor, matched_workflows, matched_waits, failed, fanned_at, rows
from (
    select *, sum(octet_length(data)) over (order by id) as total, count(*) over () as rows
    from (
        select *
        from events
        where workspace = :workspace
            and (topic, id) > (:topic, :after)
            and topic <= :topic
            and at >= :since
        order by topic, id
        limit :limit
    ) as following
) as counted
where total - octet_length(data) < :bytes
order by id
