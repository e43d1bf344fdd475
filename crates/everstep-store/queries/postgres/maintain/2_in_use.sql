-- Whether a run in a range of ids exists.
-- Served by the primary key of runs.
select exists (
    select
    from runs
    where id >= :from
        and id < :until
)
