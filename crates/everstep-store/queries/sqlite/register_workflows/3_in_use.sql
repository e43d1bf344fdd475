-- The style of a deleted version from :version on, of another style than :style, to which runs still refer.
-- Served by the primary key of workflows (workspace, name, version), runs_listed_by_workflow
-- (workspace, workflow, created_at, id) where is_test = 0, of which it reads a workflow's runs up to the first that
-- refers to one, and runs_of_tests (workspace, workflow, version).
select style
from workflows
where workspace = :workspace
    and name = :name
    and version between :version and :deleted
    and style <> :style
    and exists (
        select 1
        from runs indexed by runs_listed_by_workflow
        where runs.workspace = :workspace
            and runs.workflow = :name
            and runs.is_test = 0
            and runs.version = workflows.version
    )
union all
select style
from workflows
where workspace = :workspace
    and name = :name
    and version between :version and :deleted
    and style <> :style
    and exists (
        select 1
        from runs indexed by runs_of_tests
        where runs.workspace = :workspace
            and runs.workflow = :name
            and runs.is_test = 1
            and runs.version = workflows.version
    )
limit 1
