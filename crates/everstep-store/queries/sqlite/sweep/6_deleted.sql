-- At most :limit deleted workflows whose versions may be deleted now.
-- Reads the whole table: it has a row per workflow that was deleted.
select workspace, name, version
from deleted_workflows
where look_at <= :now
order by look_at
limit :limit
