-- The newest version of a workflow, also of a deleted one.
-- Served by the primary key of workflows (workspace, name, version).
select version
from workflows
where workspace = :workspace
    and name = :name
order by version desc
limit 1
