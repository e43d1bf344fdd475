-- A finished file of a workspace.
-- Served by the primary key of files (id).
select id, name, media_type, size, sha256, uploaded_by, created_at, expires_at, run_id, seq
from files
where id = :id
    and workspace = :workspace
    and sha256 is not null
