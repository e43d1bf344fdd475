-- Deletes a search attribute of a workflow.
-- Served by the primary key of search_attributes (workspace, workflow, path).
delete from search_attributes
where workspace = :workspace
    and workflow = :name
    and path = :path
