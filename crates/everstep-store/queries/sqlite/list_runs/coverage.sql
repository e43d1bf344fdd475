-- The time from which on every run in a list has the terms of a search attribute; null if that of a workflow has not.
-- Without a workflow, the list is that of the workspace: each workflow that has runs must declare the attribute.
-- Served by the primary key of search_attributes (workspace, workflow, path), and runs_listed_by_workflow (workspace,
-- workflow, created_at, id) where is_test = 0, of which it reads one run per workflow.
with recursive listed (workflow) as (
    select (
        select workflow
        from runs indexed by runs_listed_by_workflow
        where workspace = :workspace
            and is_test = 0
            and workflow >= coalesce(:workflow, '')
        order by workflow
        limit 1
    )
    union all
    select (
        select runs.workflow
        from runs indexed by runs_listed_by_workflow
        where runs.workspace = :workspace
            and runs.is_test = 0
            and runs.workflow > listed.workflow
        order by runs.workflow
        limit 1
    )
    from listed
    where listed.workflow is not null
        and :workflow is null
)
select case
    when count(*) = count(search_attributes.since) then max(search_attributes.since)
end
from listed
left join search_attributes
    on search_attributes.workspace = :workspace
    and search_attributes.workflow = listed.workflow
    and search_attributes.path = :path
where listed.workflow is not null
    and (:workflow is null or listed.workflow = :workflow)
