-- Writes the end of a requeue, unless another node has taken it since.
-- Served by the primary key of dead_letters (workspace, id).
update dead_letters
set status = :status, error = :error, attempts = :attempts, changed_at = :at, taken_by = null
where workspace = :workspace
    and id = :id
    and taken_by = :node
    and status = 'queued'
