-- At most :limit rows of a workspace's audit between two ids, newest first.
-- Served by the primary key of audit (workspace, id).
select id, workspace, at, actor, action, target, details
from audit
where workspace = :workspace
    and id >= :from_id
    and id < :before_id
    and at >= :since
    and at < :until
    and (:actor is null or actor = :actor)
    and (:action is null or action = :action)
order by id desc
limit :limit
