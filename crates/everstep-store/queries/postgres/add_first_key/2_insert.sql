-- Adds an API key if there has never been one.
-- Served by the primary key of api_keys.
insert into api_keys (id, workspace, name, hash, permissions, created_at)
select :id, :workspace, :name, :hash, :permissions, :created_at
where not exists (
    select
    from api_keys
)
