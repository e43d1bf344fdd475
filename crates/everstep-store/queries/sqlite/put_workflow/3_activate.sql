-- Makes a version the one that new runs use, unless a later one is active.
-- Served by the primary key of workflow_heads (workspace, name).
insert into workflow_heads (workspace, name, version)
values (:workspace, :name, :version)
on conflict (workspace, name) do update
set version = excluded.version
where workflow_heads.version < excluded.version
