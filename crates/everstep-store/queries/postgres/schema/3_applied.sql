-- The migrations that were applied, in their order.
-- Reads the whole table: it has one row per migration.
select version, name::text, checksum::text
from refinery_schema_history
order by version
