-- Deletes an unfinished file with its chunks.
-- Served by the primary keys of files (id) and file_chunks (file, chunk).
with
deleted as (
    delete from files
    where id = :id
        and sha256 is null
    returning id
)
delete from file_chunks
using deleted
where file_chunks.file = deleted.id
