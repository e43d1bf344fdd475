-- Deletes fenced nodes whose lease ended before :before and that own no runs.
-- Reads the whole table: it has one row per node. Their runs by runs_owned (owner).
delete from nodes
where fenced = 1
    and lease_until < :before
    and not exists (
        select 1
        from runs
        where runs.owner = nodes.id
    )
