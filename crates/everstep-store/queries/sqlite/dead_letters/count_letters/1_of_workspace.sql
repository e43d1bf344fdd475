-- The number of dead letters of a workspace that are dead, in a range of ids, counted to a limit.
-- Served by dead_letters_by_status (workspace, status, id).
select count(*)
from (
    select 1
    from dead_letters indexed by dead_letters_by_status
    where workspace = :workspace
        and status = 'dead'
        and id >= :from
        and id < :to
        and (:source is null or source = :source)
        and (:kind is null or kind = :kind)
        and (:workflow is null or workflow = :workflow)
        and (:error is null or error = :error)
    limit :limit
) as counted
