-- Deletes a file.
-- Served by the primary key of files (id).
delete from files
where id = :id
