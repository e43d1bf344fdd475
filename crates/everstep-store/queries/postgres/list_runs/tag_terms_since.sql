-- The time from which on all runs have the terms of their tags.
-- Served by the primary key of settings.
select convert_from(value, 'UTF8')::bigint
from settings
where name = 'tag_terms_since'
