-- A setting.
-- Served by the primary key of settings.
select value
from settings
where name = :name
