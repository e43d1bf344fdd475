-- The number of dead letters of a run that are dead, in a range of ids, counted to a limit.
-- Served by dead_letters_of_runs (workspace, run_id, id) where run_id is not null.
-- The range is one of both columns, because a range of ids alone also fits the primary key: without statistics the planner
-- may prefer it, and read every dead letter of the workspace.
select count(*)
from (
    select 1
    from dead_letters
    where workspace = :workspace
        and run_id = :run
        and status = 'dead'
        and (run_id, id) >= (:run, :from)
        and (run_id, id) < (:run, :to)
        and (:source::text is null or source = :source::text)
        and (:kind::text is null or kind = :kind::text)
        and (:workflow::text is null or workflow = :workflow::text)
        and (:error::text is null or error = :error::text)
    limit :limit
) as counted
