-- Whether there is no schema yet.
-- Reads the catalogue.
select to_regclass('refinery_schema_history') is null
