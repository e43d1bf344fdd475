-- Events of a workspace in a range of ids, newest first, without their data.
-- Served by events_listed (workspace, id).
select
    id, topic, source, event_id, at, depth, subject, extensions, replay_of, matched_workflows, matched_waits, failed,
    fanned_at
from events
where workspace = :workspace
    and id >= :from
    and id < :to
order by id desc
limit :limit
