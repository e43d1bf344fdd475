-- Locks the schema against other calls that change it, until the transaction ends.
-- Needs no index.
select pg_advisory_xact_lock(:lock)
