-- Changes a subscription that a caller has created.
-- Served by the primary key of subscriptions (workspace, id).
update subscriptions
set pattern = :pattern,
    head = :head,
    filter = :filter,
    target = :target,
    input = :input
where workspace = :workspace
    and id = :id
    and origin is null
