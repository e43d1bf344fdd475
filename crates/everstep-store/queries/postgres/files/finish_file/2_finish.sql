-- Finishes a file. Readers find it from now on.
-- Served by the primary key of files (id).
update files
set
    size = :size,
    sha256 = :sha,
    expires_at = :expires_at
where id = :id
    and sha256 is null
