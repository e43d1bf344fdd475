-- Deletes fenced nodes whose lease ended a day ago and that own no runs.
-- Reads the whole table: it has one row per node. Their runs by runs_owned (owner).
delete from nodes
where fenced
    and lease_until < (extract(epoch from clock_timestamp()) * 1000000)::bigint - 86400000000
    and not exists (
        select
        from runs
        where runs.owner = nodes.id
    )
