-- Deletes at most :limit dead letters with a status that have not changed since a time.
-- Served by dead_letters_by_change (status, changed_at, id) and the primary key of dead_letters (workspace, id).
delete from dead_letters
where (workspace, id) in (
        select workspace, id
        from dead_letters indexed by dead_letters_by_change
        where status = :status
            and changed_at < :before
        order by changed_at, id
        limit :limit
    )
