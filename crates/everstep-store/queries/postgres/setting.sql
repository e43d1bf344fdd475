-- A setting, stored if it is not there yet. No row when another has stored it just now: then ask again.
-- Served by the primary key of settings.
with stored as (
    insert into settings (name, value)
    values (:name, :value)
    on conflict (name) do nothing
    returning value
)
select value
from stored
union all
select value
from settings
where name = :name
