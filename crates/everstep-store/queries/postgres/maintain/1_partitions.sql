-- The tables that are or were partitions of the journal: their names, whether they are attached,
-- whether they are about to be detached, and their comments.
-- Reads the catalogue: it has one row per table.
select
    tables.relname::text,
    pg_inherits.inhrelid is not null,
    coalesce(pg_inherits.inhdetachpending, false),
    obj_description(tables.oid, 'pg_class')
from pg_class as journal
join pg_class as tables on tables.relnamespace = journal.relnamespace
left join pg_inherits on pg_inherits.inhrelid = tables.oid and pg_inherits.inhparent = journal.oid
where journal.oid = to_regclass('journal')
    and tables.relkind = 'r'
    and tables.relname like 'journal\_%'
order by tables.relname
