-- Adds a file without bytes, which no reader finds.
insert into files (id, workspace, size, created_at, expires_at, uploaded_by, name, media_type)
values (:id, :workspace, :size, :created_at, :expires_at, :uploaded_by, :name, :media_type)
