-- The key with a hash, unless it was revoked.
-- Served by the unique hash of api_keys.
select id, workspace, name, hash, permissions, role, rate_limit, created_at, expires_at, revoked_at, maker
from api_keys
where hash = :hash
    and revoked_at is null
