-- Queues at most :limit dead letters of a run that are dead, in a range of ids, oldest first. Returns their ids.
-- Served by dead_letters_of_runs (workspace, run_id, id) where run_id is not null, and the primary key of dead_letters
-- (workspace, id).
update dead_letters
set status = 'queued', changed_at = :now
where workspace = :workspace
    and id in (
        select id
        from dead_letters indexed by dead_letters_of_runs
        where workspace = :workspace
            and run_id = :run
            and status = 'dead'
            and id >= :from
            and id < :to
            and (:source is null or source = :source)
            and (:kind is null or kind = :kind)
            and (:workflow is null or workflow = :workflow)
            and (:error is null or error = :error)
        order by id
        limit :limit
    )
returning id
