-- Waits until nobody else saves, activates or deletes a workflow of this name. Ends with the transaction.
-- Needs no index.
select pg_advisory_xact_lock(hashtextextended(:workspace::uuid::text || :name, 0))
