-- The time from which on every run in a list has the terms of a search attribute; null if that of a workflow has not.
-- Without a workflow, the list is that of the workspace: each workflow that has runs must declare the attribute.
-- Served by the primary key of search_attributes (workspace, workflow, path), and runs_listed_by_workflow (workspace,
-- workflow, created_at, id) where not is_test, of which it reads one run per workflow.
with recursive listed (workflow) as (
    (
        select workflow
        from runs
        where workspace = :workspace
            and not is_test
            and workflow >= coalesce(:workflow::text, '')
        order by workflow
        limit 1
    )
    union all
    select (
        select runs.workflow
        from runs
        where runs.workspace = :workspace
            and not runs.is_test
            and runs.workflow > listed.workflow
        order by runs.workflow
        limit 1
    )
    from listed
    where listed.workflow is not null
        and :workflow::text is null
)
select case
    when bool_and(since is not null) then max(since)
end
from (
    select (
        select since
        from search_attributes
        where search_attributes.workspace = :workspace
            and search_attributes.workflow = listed.workflow
            and search_attributes.path = :path
    ) as since
    from listed
    where listed.workflow is not null
        and (:workflow::text is null or listed.workflow = :workflow)
) as declared
