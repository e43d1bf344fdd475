-- Whose the tables are that we would have to change, when they are not ours.
-- Reads the catalogue.
select pg_get_userbyid(relowner)::text
from pg_class
where oid = to_regclass('journal')
    and not pg_has_role(current_user, relowner, 'usage')
