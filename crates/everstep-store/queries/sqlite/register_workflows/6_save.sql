-- Saves a version under its own number, or changes for how long its runs are kept. One that was only named is brought
-- with its digest.
-- Served by the primary key of workflows (workspace, name, version).
insert into workflows (workspace, name, version, style, definition, digest, retention_days, created_at)
values (:workspace, :name, :version, :style, :definition, :digest, :retention_days, :created_at)
on conflict (workspace, name, version) do update
set retention_days = excluded.retention_days,
    digest = case workflows.digest when '' then excluded.digest else workflows.digest end
