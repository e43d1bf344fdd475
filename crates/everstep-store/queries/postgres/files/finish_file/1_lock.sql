-- Locks the number of unbound bytes of a person, until the transaction ends.
-- Needs no index.
select pg_advisory_xact_lock(hashtextextended('files' || :workspace::uuid::text || :uploaded_by::text, 0))
