-- Pauses a subscription at a time, or resumes it. One that is paused keeps its time.
-- Served by the primary key of subscriptions (workspace, id).
update subscriptions
set paused_at = case when :paused_at is null then null else coalesce(paused_at, :paused_at) end
where workspace = :workspace
    and id = :id
