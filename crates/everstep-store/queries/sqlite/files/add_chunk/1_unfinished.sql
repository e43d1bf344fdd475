-- Whether an unfinished file exists.
-- Served by the primary key of files (id).
select exists (
    select 1
    from files
    where id = :id
        and sha256 is null
)
