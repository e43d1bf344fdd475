-- Releases the runs of one node.
-- Served by runs_owned (owner) where owner is not null.
update runs
set owner = null, wake_at = :now
where owner = :node
