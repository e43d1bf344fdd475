-- Discards at most :limit dead letters of a run that are dead, in a range of ids, oldest first. Returns their number and the
-- last id.
-- Served by dead_letters_of_runs (workspace, run_id, id) where run_id is not null, and by the primary key of dead_letters
-- (workspace, id).
-- The range is one of both columns, because a range of ids alone also fits the primary key: without statistics the planner
-- may prefer it, and read every dead letter of the workspace.
with
chosen as materialized (
    select workspace, id
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
    order by id
    limit :limit
    for update
),
changed as (
    update dead_letters
    set status = 'discarded', changed_at = :now, reason = :reason
    from chosen
    where dead_letters.workspace = chosen.workspace
        and dead_letters.id = chosen.id
    returning dead_letters.id
)
select count(*), (array_agg(id order by id desc))[1]
from changed
