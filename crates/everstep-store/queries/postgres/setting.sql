-- A setting, stored if it does not exist yet. No row if another transaction has just stored it: then repeat the query.
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
