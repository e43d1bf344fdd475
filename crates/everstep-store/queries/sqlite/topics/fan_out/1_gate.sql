-- Moves the fan-out of an event from the position that was seen, unless it is done: the gate of a slice. Returns the
-- number of the slice, counted from 1.
-- Served by the primary key of events (workspace, id).
update events
set cursor = coalesce(:next, cursor),
    fanned_at = :fanned_at,
    slices = slices + 1,
    matched_workflows = matched_workflows + :workflows,
    matched_waits = matched_waits + :waits,
    failed = failed + :failed
where workspace = :workspace
    and id = :id
    and cursor = :seen
    and fanned_at is null
returning slices
