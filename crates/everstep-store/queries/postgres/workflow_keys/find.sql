-- The change of a workflow under an idempotency key, unless it is older than :since.
-- Served by the primary key of workflow_keys (workspace, name, key).
select digest, version
from workflow_keys
where workspace = :workspace
    and name = :name
    and key = :key
    and at >= :since
