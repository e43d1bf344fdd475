-- At most :limit open waits of one kind after a position, by their runs and steps. Those of test runs are left out.
-- Served by waits_by_kind (workspace, kind, run_id, step) where kind <> 'signal', and the primary key of runs.
select waits.run_id, runs.workflow, waits.step, waits.event, waits.pattern, waits.deadline
from waits indexed by waits_by_kind
join runs on runs.id = waits.run_id
where waits.workspace = :workspace
    and waits.kind = :kind
    and waits.kind <> 'signal'
    and (waits.run_id, waits.step) > (:run, :step)
    and runs.is_test = 0
    and (:workflow is null or runs.workflow = :workflow)
order by waits.run_id, waits.step
limit :limit
