-- Revokes a key of a workspace, unless it was revoked before.
-- Served by the primary key of api_keys.
update api_keys
set revoked_at = coalesce(revoked_at, :now)
where id = :id
    and workspace = :workspace
returning id, workspace, name, hash, permissions, role, rate_limit, created_at, expires_at, revoked_at, maker
