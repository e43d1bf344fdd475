-- Locks the workflow of this name against other calls that save, activate or delete it, until the transaction ends.
-- Needs no index.
select pg_advisory_xact_lock(hashtextextended(:workspace::uuid::text || :name, 0))
