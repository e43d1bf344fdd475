-- Opens a wait. A wait that is already open is an error, and the item a conflict.
-- Served by the primary key of waits (run_id, step).
insert into waits (
    run_id, step, workspace, event, deadline, pattern, kind, by_topic, shape, shape_hash, match_hash
)
values (
    :run, :step, :workspace, :event, :deadline, :pattern, :kind, :by_topic, :shape, :shape_hash, :match_hash
)
