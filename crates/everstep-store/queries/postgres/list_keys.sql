-- The keys of a workspace, oldest first.
-- Reads the whole table: it has one row per key.
select id, workspace, name, hash, permissions, role, rate_limit, created_at, expires_at, revoked_at, maker
from api_keys
where workspace = :workspace
order by created_at, id
