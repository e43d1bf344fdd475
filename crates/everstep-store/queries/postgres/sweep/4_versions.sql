-- Deletes the versions of deleted workflows, at most :limit of them, to which no run refers;
-- the others are checked again at :later.
-- Served by runs_listed_by_workflow (workspace, workflow, created_at, id) where not is_test, of which it reads
-- a workflow's runs up to the first that refers to one, runs_of_tests (workspace, workflow, version) and
-- the primary keys of workflows and workflow_heads; reads all rows of deleted_workflows: one per deleted workflow.
with
due as materialized (
    select workspace, name, version
    from deleted_workflows
    where look_at <= :now
    order by look_at
    limit :limit
    for update skip locked
),
free as materialized (
    select workspace, name, version
    from due
    where not exists (
            select
            from runs
            where runs.workspace = due.workspace
                and runs.workflow = due.name
                and not runs.is_test
                and runs.version <= due.version
        )
        and not exists (
            select
            from runs
            where runs.workspace = due.workspace
                and runs.workflow = due.name
                and runs.is_test
                and runs.version <= due.version
        )
        -- A node of the previous release may have activated one again.
        and not exists (
            select
            from workflow_heads
            where workflow_heads.workspace = due.workspace
                and workflow_heads.name = due.name
                and workflow_heads.version <= due.version
        )
),
freed as (
    delete from workflows
    using free
    where workflows.workspace = free.workspace
        and workflows.name = free.name
        and workflows.version <= free.version
)
update deleted_workflows
set look_at = case when ((due.workspace, due.name) in (select workspace, name from free)) is not true then :later end
from due
where deleted_workflows.workspace = due.workspace
    and deleted_workflows.name = due.name
