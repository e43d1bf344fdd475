-- Removes the deleted versions of a workflow from :version on, so that their numbers can be used again.
-- Served by the primary key of workflows (workspace, name, version).
delete from workflows
where workspace = :workspace
    and name = :name
    and version between :version and :deleted
