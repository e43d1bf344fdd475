-- The numbers of a namespace.
-- Served by the primary key of store_namespaces (workspace, name).
select changes, keys, links, bytes
from store_namespaces
where workspace = :workspace
    and name = :name
