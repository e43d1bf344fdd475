-- Whether less than a tenth of the runs in a partition are left, by its statistics.
-- Served by the primary key of runs, of which it reads at most a tenth of the partition's.
with
stored as materialized (
    select
        case
            when pg_stats.n_distinct < 0 then -pg_stats.n_distinct * greatest(pg_class.reltuples, 0)
            else pg_stats.n_distinct
        end as runs
    from pg_class
    join pg_stats on pg_stats.tablename = pg_class.relname
        and pg_stats.schemaname = pg_class.relnamespace::regnamespace::text
        and pg_stats.attname = 'run_id'
    where pg_class.oid = to_regclass(:partition)
),
remaining as materialized (
    select
    from runs
    where id >= :from
        and id < :until
    limit (select coalesce(max(runs), 0) / 10 from stored)::bigint + 1
)
select (select count(*) from remaining) < (select coalesce(max(runs), 0) / 10 from stored)
