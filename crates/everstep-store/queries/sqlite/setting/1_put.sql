-- Stores a setting that is not there yet.
-- Served by the primary key of settings.
insert into settings (name, value)
values (:name, :value)
on conflict (name) do nothing
