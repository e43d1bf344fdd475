-- Saves a version under its own number, or changes its retention and its definition. A version that is only named
-- has no digest and changes no definition.
-- Served by the primary key of workflows (workspace, name, version).
insert into workflows (workspace, name, version, style, definition, digest, retention_days, created_at)
values (:workspace, :name, :version, :style, :definition, :digest, :retention_days, :created_at)
on conflict (workspace, name, version) do update
set retention_days = excluded.retention_days,
    definition = case excluded.digest when '' then workflows.definition else excluded.definition end,
    digest = case excluded.digest when '' then workflows.digest else excluded.digest end
