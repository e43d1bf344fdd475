-- Writes the numbers of a namespace. The writer thread is the only one that writes, so they are those that it has read.
-- Served by the primary key of store_namespaces (workspace, name).
insert into store_namespaces (workspace, name, changes, keys, links, bytes, updated_at)
values (:workspace, :name, :changes, :keys, :links, :bytes, :now)
on conflict (workspace, name) do update
set changes = excluded.changes,
    keys = excluded.keys,
    links = excluded.links,
    bytes = excluded.bytes,
    updated_at = excluded.updated_at
