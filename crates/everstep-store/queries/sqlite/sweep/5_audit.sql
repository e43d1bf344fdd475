-- Deletes at most :limit rows of the audit with ids before :before.
-- Served by the primary key of audit (workspace, id), which is searched once per workspace.
delete from audit
where (workspace, id) in (
    select audit.workspace, audit.id
    from workspaces
    cross join audit on audit.workspace = workspaces.id
    where audit.id < :before
    limit :limit
)
