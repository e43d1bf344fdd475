-- Deletes a subscription that a caller has created.
-- Served by the primary key of subscriptions (workspace, id).
delete from subscriptions
where workspace = :workspace
    and id = :id
    and origin is null
