-- The number of runs of a workflow that have not ended.
-- Reads all runs that have not ended, by runs_owned (owner) and runs_claimable (lane, wake_at, id): it is rarely executed.
select
    (
        select count(*)
        from runs
        where owner is not null
            and workspace = :workspace
            and workflow = :name
    ) + (
        select count(*)
        from runs
        where owner is null
            and ended_at is null
            and workspace = :workspace
            and workflow = :name
    )
