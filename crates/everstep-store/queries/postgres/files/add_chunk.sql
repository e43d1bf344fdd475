-- Adds a chunk to an unfinished file, which is locked: it is not deleted before the chunk is written.
-- Served by the primary keys of files (id) and file_chunks (file, chunk).
with
unfinished as materialized (
    select id
    from files
    where id = :id
        and sha256 is null
    for key share
)
insert into file_chunks (file, chunk, bytes)
select id, :chunk, :bytes
from unfinished
