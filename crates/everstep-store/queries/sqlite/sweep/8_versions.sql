-- Deletes the versions of a workflow up to a number.
-- Served by the primary key of workflows (workspace, name, version).
delete from workflows
where workspace = :workspace
    and name = :name
    and version <= :version
