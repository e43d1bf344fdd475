-- Postpones the deletion of a file.
-- Served by the primary key of files (id).
update files
set expires_at = :later
where id = :id
