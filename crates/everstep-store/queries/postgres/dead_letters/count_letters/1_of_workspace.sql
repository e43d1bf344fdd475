-- The number of dead letters of a workspace that are dead, in a range of ids, counted to a limit.
-- Served by dead_letters_by_status (workspace, status, id).
select count(*)
from (
    select 1
    from dead_letters
    where workspace = :workspace
        and status = 'dead'
        and (status, id) >= ('dead', :from::uuid)
        and (status, id) < ('dead', :to::uuid)
        and (:source::text is null or source = :source::text)
        and (:kind::text is null or kind = :kind::text)
        and (:workflow::text is null or workflow = :workflow::text)
        and (:error::text is null or error = :error::text)
    limit :limit
) as counted
