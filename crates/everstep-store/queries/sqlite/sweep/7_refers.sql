-- Whether a run refers to a version that was deleted, or a node of the previous release has activated one again.
-- Served by runs_listed_by_workflow (workspace, workflow, created_at, id) where is_test = 0, of which it reads
-- the workflow's runs up to the first that refers to one, by runs_of_tests (workspace, workflow, version), and by the
-- primary key of workflow_heads (workspace, name).
select exists (
    select 1
    from runs indexed by runs_listed_by_workflow
    where workspace = :workspace
        and workflow = :name
        and is_test = 0
        and version <= :version
) or exists (
    select 1
    from runs indexed by runs_of_tests
    where workspace = :workspace
        and workflow = :name
        and is_test = 1
        and version <= :version
) or exists (
    select 1
    from workflow_heads
    where workspace = :workspace
        and name = :name
        and version <= :version
)
