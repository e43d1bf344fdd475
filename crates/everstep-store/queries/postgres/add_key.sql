-- Adds an API key. An existing id or hash is an error.
-- Served by the primary key of api_keys and its unique hash.
insert into api_keys (
    id, workspace, name, hash, permissions, role, rate_limit, created_at, expires_at, revoked_at, maker
)
values (:id, :workspace, :name, :hash, :permissions, :role, :rate_limit, :created_at, :expires_at, :revoked_at, :maker)
