-- The migrations that were applied, in their order.
-- Reads the whole table: it has one row per migration.
select version, name, checksum
from everstep_migrations
order by version
