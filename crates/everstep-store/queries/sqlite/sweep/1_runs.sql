-- Finds at most :limit ended runs whose retention has passed.
-- Served by runs_expiring (expires_at) where ended_at is not null.
select id, workspace, workflow, status, is_test
from runs
where ended_at is not null
    and expires_at < :now
order by expires_at
limit :limit
