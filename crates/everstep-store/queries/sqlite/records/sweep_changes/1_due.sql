-- At most :limit changes whose time has passed, each with whether the run that made it exists.
-- Served by store_changes_expiring (expires_at) and the primary key of runs.
select workspace, namespace, change, exists (select 1 from runs where runs.id = store_changes.run_id)
from store_changes
where expires_at <= :now
order by expires_at
limit :limit
