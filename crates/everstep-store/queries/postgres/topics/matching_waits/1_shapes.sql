-- The shapes of the waits for an event, by their hashes: a loose index scan, which reads one row for each shape. Beside
-- them, the waits that an earlier release has written, by run and step: they have no shape.
-- Served by waits_by_shape (workspace, event, shape_hash, match_hash, run_id, step) where by_topic.
with recursive
shapes (shape_hash, shape) as (
    (
        select waits.shape_hash, waits.shape
        from waits
        where waits.by_topic
            and waits.workspace = :workspace
            and waits.event = :event
            and waits.shape_hash >= :from
        order by waits.shape_hash
        limit 1
    )
    union all
    select next.shape_hash, next.shape
    from shapes
    cross join lateral (
        select waits.shape_hash, waits.shape
        from waits
        where waits.by_topic
            and waits.workspace = :workspace
            and waits.event = :event
            and waits.shape_hash > shapes.shape_hash
        order by waits.shape_hash
        limit 1
    ) as next
),
found as (
    select shape_hash, shape
    from shapes
    limit :shapes_max
),
unhashed as (
    select waits.run_id, waits.step, waits.pattern
    from waits
    where waits.by_topic
        and waits.workspace = :workspace
        and waits.event = :event
        and waits.shape_hash is null
        and waits.match_hash is null
        and (waits.run_id, waits.step) > (:run, :step)
    order by waits.shape_hash, waits.match_hash, waits.run_id, waits.step
    limit :unhashed_max
)
select shape_hash, shape, null::uuid as run_id, null::text as step, null::bytea as pattern
from found
union all
select null, null, run_id, step, pattern
from unhashed
order by shape_hash, run_id, step
