-- Writes the end of a notice, unless another node has taken it since.
-- Served by the primary key of dead_letters (workspace, id).
update dead_letters
set is_notice_due = 0, notified_at = :notified_at, notice_by = null
where workspace = :workspace
    and id = :id
    and notice_by = :node
