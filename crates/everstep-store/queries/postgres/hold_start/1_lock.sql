-- Locks a run that no node owns and that has a status, until the transaction ends: then no node claims it, and no item is
-- written for it. The second statement sees every entry that was written before.
-- Served by the primary key of runs.
select id
from runs
where id = :run
    and owner is null
    and status = :before
for update
