-- Deletes an unfinished file that has no chunks.
-- Served by the primary keys of files (id) and file_chunks (file, chunk).
delete from files
where id = :id
    and sha256 is null
    and not exists (
        select 1
        from file_chunks
        where file = :id
    )
