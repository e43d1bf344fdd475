-- Writes the ends of notices, each unless another node has taken it since.
-- Served by the primary key of dead_letters (workspace, id).
update dead_letters
set
    is_notice_due = false,
    notified_at = result.notified_at,
    notice_by = null
from unnest(:workspaces::uuid[], :ids::uuid[], :notified_at::bigint[]) as result (workspace, id, notified_at)
where dead_letters.workspace = result.workspace
    and dead_letters.id = result.id
    and dead_letters.notice_by = :node
