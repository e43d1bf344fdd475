-- Whether the history of migrations exists, and whether that of builds before it does.
-- Reads the catalogue.
select
    to_regclass('everstep_migrations') is not null,
    to_regclass('refinery_schema_history') is not null
