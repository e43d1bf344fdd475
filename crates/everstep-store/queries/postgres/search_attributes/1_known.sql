-- The search attributes of a workflow.
-- Served by the primary key of search_attributes (workspace, workflow, path).
select path
from search_attributes
where workspace = :workspace
    and workflow = :name
order by path
