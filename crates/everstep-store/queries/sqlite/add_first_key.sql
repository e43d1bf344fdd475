-- Adds an API key if there has never been one.
-- Served by the primary key of api_keys.
insert into api_keys (
    id, workspace, name, hash, permissions, role, rate_limit, created_at, expires_at, revoked_at, maker
)
select :id, :workspace, :name, :hash, :permissions, :role, :rate_limit, :created_at, :expires_at, :revoked_at, :maker
where not exists (
    select 1
    from api_keys
)
