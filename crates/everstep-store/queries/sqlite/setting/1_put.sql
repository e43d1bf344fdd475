-- Stores a setting that does not exist yet.
-- Served by the primary key of settings.
insert into settings (name, value)
values (:name, :value)
on conflict (name) do nothing
