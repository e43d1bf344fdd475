-- Whether the fan-out of an event with an id before :stalled is not done.
-- Served by events_open (id) where fanned_at is null.
select exists (
    select 1
    from events
    where fanned_at is null
        and id < :stalled
)
