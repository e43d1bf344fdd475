-- Waits until nobody else changes the schema. Ends with the transaction.
-- Needs no index.
select pg_advisory_xact_lock(:lock)
