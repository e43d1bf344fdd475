-- Adds a subscription.
-- Served by the primary key of subscriptions (workspace, id).
insert into subscriptions (workspace, id, pattern, head, filter, target, input, origin, paused_at, created_at)
values (:workspace, :id, :pattern, :head, :filter, :target, :input, :origin, :paused_at, :created_at)
