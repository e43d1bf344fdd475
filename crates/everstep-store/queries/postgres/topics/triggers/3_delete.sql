-- Deletes subscriptions that a workflow declared.
-- Served by the primary key of subscriptions (id, workspace).
delete from subscriptions
where workspace = :workspace
    and id = any(:ids::uuid[])
    and origin is not null
