-- A chunk of a file.
-- Served by the primary key of file_chunks (file, chunk).
select bytes
from file_chunks
where file = :id
    and chunk = :chunk
