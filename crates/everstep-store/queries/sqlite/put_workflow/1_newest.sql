-- The newest version of a workflow.
-- Served by the primary key of workflows (workspace, name, version).
select version, digest
from workflows
where workspace = :workspace
    and name = :name
order by version desc
limit 1
