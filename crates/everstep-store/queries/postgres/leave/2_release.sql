-- Gives the runs of one node back.
-- Served by runs_owned (owner) where owner is not null.
update runs
set owner = null, wake_at = :now
where owner = :node
