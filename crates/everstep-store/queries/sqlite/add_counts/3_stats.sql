-- Adds to the figures of a minute of a workflow, and replaces its durations.
-- Served by the primary key of run_stats (workspace, minute, workflow).
insert into run_stats (workspace, minute, workflow, started, completed, failed, cancelled, durations)
values (:workspace, :minute, :workflow, :started, :completed, :failed, :cancelled, :durations)
on conflict (workspace, minute, workflow) do update
set started = started + excluded.started,
    completed = completed + excluded.completed,
    failed = failed + excluded.failed,
    cancelled = cancelled + excluded.cancelled,
    durations = excluded.durations
