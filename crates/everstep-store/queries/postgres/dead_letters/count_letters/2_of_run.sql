-- The number of dead letters of a run that are dead, in a range of ids, counted to a limit.
-- Served by dead_letters_of_runs (workspace, run_id, id) where run_id is not null.
select count(*)
from (
    select 1
    from dead_letters
    where workspace = :workspace
        and run_id = :run
        and status = 'dead'
        and id >= :from
        and id < :to
        and (:source::text is null or source = :source::text)
        and (:kind::text is null or kind = :kind::text)
        and (:workflow::text is null or workflow = :workflow::text)
        and (:error::text is null or error = :error::text)
    limit :limit
) as counted
