-- Whether the history of migrations exists, and whether tables of builds before it do. Another application of the
-- database may have the table of refinery as well, but not a journal.
-- Reads the catalogue.
select
    to_regclass('everstep_migrations') is not null,
    to_regclass('refinery_schema_history') is not null and to_regclass('journal') is not null
