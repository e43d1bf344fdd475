-- A finished file that a person has uploaded.
-- Served by the primary key of files (id).
select run_id, seq, expires_at
from files
where id = :id
    and workspace = :workspace
    and uploaded_by = :uploaded_by
    and sha256 is not null
