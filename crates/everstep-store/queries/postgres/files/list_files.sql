-- Those of these files that a workspace has, finished.
-- Served by the primary key of files (id).
select
    files.id, files.name, files.media_type, files.size, files.sha256, files.uploaded_by, files.created_at,
    files.expires_at, files.run_id, files.seq
from unnest(:ids::uuid[]) as named (id)
join files on files.id = named.id
where files.workspace = :workspace
    and files.sha256 is not null
