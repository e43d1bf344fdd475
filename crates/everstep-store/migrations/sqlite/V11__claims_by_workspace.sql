-- Claims share their places among workspaces: the second order in which due runs are found.
-- The previous release continues to work beside this one: it claims by runs_claimable, the order of time, which this
-- release also needs, to find that nothing is due, and when the next run is.
-- A run that waits without a timeout is never due, and is left out.
create index runs_claimable_by_workspace on runs (lane, workspace, wake_at, id)
where owner is null and ended_at is null and wake_at <> 9223372036854775807;
