-- At most :limit records that have expired, those that expired first.
-- Served by records_expiring (expires_at) where expires_at is not null.
select workspace, namespace, key, change
from records
where expires_at <= :now
order by expires_at
limit :limit
