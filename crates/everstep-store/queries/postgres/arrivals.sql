-- The inputs that wait for a run, existing or not, oldest first.
-- Served by inbox_by_run (run_id, id).
select id, run_id, input
from inbox
where run_id = :run
order by id
