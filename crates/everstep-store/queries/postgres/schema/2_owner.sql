-- The owner of the tables that a migration would change, if it is another user.
-- Reads the catalogue.
select pg_get_userbyid(relowner)::text
from pg_class
where oid = to_regclass('journal')
    and not pg_has_role(current_user, relowner, 'usage')
