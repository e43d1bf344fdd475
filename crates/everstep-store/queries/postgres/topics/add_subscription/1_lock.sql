-- Locks the number of subscriptions of a workspace, until the transaction ends.
-- Needs no index.
select pg_advisory_xact_lock(hashtextextended('subscriptions' || :workspace::uuid::text, 0))
