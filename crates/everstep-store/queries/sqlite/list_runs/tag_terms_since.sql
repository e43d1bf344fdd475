-- The time from which on all runs have the terms of their tags.
-- Served by the primary key of settings.
select cast(cast(value as text) as integer)
from settings
where name = 'tag_terms_since'
