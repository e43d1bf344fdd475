-- Deletes the entries of at most :limit deleted runs in a range of ids. Returns the number of runs.
-- Served by journal_by_seq (run_id, seq), of which it reads one entry per run, and the primary key of runs.
with recursive
stored (run_id) as (
    (
        select run_id
        from journal
        where run_id >= :from
            and run_id < :until
        order by run_id
        limit 1
    )
    union all
    select (
        select journal.run_id
        from journal
        where journal.run_id > stored.run_id
            and journal.run_id < :until
        order by journal.run_id
        limit 1
    )
    from stored
    where stored.run_id is not null
),
orphan as materialized (
    select run_id
    from stored
    where run_id is not null
        and not exists (
            select
            from runs
            where runs.id = stored.run_id
        )
    limit :limit
),
deleted as (
    delete from journal
    using orphan
    where journal.run_id = orphan.run_id
)
select count(*)
from orphan
