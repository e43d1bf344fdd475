-- The number of dead letters with the status dead by source, of all workspaces.
-- Served by dead_letters_by_change (status, changed_at, id), of which the dead ones are read.
select source, count(*)
from dead_letters indexed by dead_letters_by_change
where status = 'dead'
group by source
