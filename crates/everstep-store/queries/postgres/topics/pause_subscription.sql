-- Pauses a subscription at a time, or resumes it. One that is paused keeps its time.
-- Served by the primary key of subscriptions (id, workspace).
update subscriptions
set paused_at = case when :paused_at::bigint is not null then coalesce(paused_at, :paused_at::bigint) end
where workspace = :workspace
    and id = :id
returning workspace, id, pattern, filter, target, input, origin, paused_at, created_at
