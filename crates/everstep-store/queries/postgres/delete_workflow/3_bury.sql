-- Records the newest version's number, and when to check whether the versions can be deleted.
-- Served by the primary key of deleted_workflows (workspace, name).
insert into deleted_workflows (workspace, name, version, look_at)
values (:workspace, :name, :version, (extract(epoch from clock_timestamp()) * 1000000)::bigint + :grace)
on conflict (workspace, name) do update
set version = excluded.version, look_at = excluded.look_at
