-- Events of a workspace in a range of ids, newest first, without their data.
-- Served by the primary key of events (workspace, id).
select
    id, topic, source, event_id, at, depth, subject, extensions, replay_of, matched_workflows, matched_waits, failed,
    fanned_at
from events
where workspace = :workspace
    and id >= :from
    and id < :to
order by id desc
limit :limit
