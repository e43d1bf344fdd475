-- Whether the history of migrations exists, and whether that of earlier builds does.
-- Reads the catalogue.
select
    exists (select 1 from sqlite_schema where name = 'everstep_migrations'),
    exists (select 1 from sqlite_schema where name = 'refinery_schema_history')
