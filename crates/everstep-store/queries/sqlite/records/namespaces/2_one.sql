-- A namespace, also an emptied one.
-- Served by the primary key of store_namespaces (workspace, name).
select name, changes, keys, links, bytes, updated_at
from store_namespaces
where workspace = :workspace
    and name = :name
