-- Deletes at most :limit chunks of a file.
-- Served by the primary key of file_chunks (file, chunk).
delete from file_chunks
where file = :id
    and chunk in (
        select chunk
        from file_chunks
        where file = :id
        limit :limit
    )
