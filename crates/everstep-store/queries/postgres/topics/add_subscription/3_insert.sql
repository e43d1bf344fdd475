-- Adds subscriptions.
-- Served by the primary key of subscriptions (id, workspace).
insert into subscriptions (workspace, id, pattern, head, filter, target, input, origin, paused_at, created_at)
select workspace, id, pattern, head, filter, target, input, origin, paused_at, created_at
from unnest(
    :workspaces::uuid[], :ids::uuid[], :patterns::text[], :heads::text[], :filters::bytea[], :targets::text[],
    :inputs::bytea[], :origins::text[], :paused_at::bigint[], :created_at::bigint[]
) as new (workspace, id, pattern, head, filter, target, input, origin, paused_at, created_at)
