-- The key with a hash, unless it was revoked.
-- Served by the unique hash of api_keys.
select id, workspace, name, hash, permissions, created_at
from api_keys
where hash = :hash
    and revoked_at is null
