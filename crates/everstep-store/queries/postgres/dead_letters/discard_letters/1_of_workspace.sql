-- Discards at most :limit dead letters of a workspace that are dead, in a range of ids, oldest first. Returns their number
-- and the last id.
-- Served by dead_letters_by_status (workspace, status, id), since the pairs give no other index a range, and by the
-- primary key of dead_letters (workspace, id).
with
chosen as materialized (
    select workspace, id
    from dead_letters
    where workspace = :workspace
        and status = 'dead'
        and (status, id) >= ('dead', :from::uuid)
        and (status, id) < ('dead', :to::uuid)
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
