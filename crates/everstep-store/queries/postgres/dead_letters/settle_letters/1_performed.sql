-- Writes the ends of requeues, each unless another node has taken it since.
-- Served by the primary key of dead_letters (workspace, id).
update dead_letters
set
    status = result.status,
    error = result.error,
    attempts = result.attempts,
    changed_at = result.at,
    taken_by = null
from unnest(
    :workspaces::uuid[], :ids::uuid[], :at::bigint[], :statuses::text[], :errors::text[], :attempts::text[]
) as result (workspace, id, at, status, error, attempts)
where dead_letters.workspace = result.workspace
    and dead_letters.id = result.id
    and dead_letters.taken_by = :node
    and dead_letters.status = 'queued'
