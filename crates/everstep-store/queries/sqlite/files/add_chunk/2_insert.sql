-- Adds a chunk to a file.
insert into file_chunks (file, chunk, bytes)
values (:id, :chunk, :bytes)
