-- The shapes of the waits for an event, by their hashes: a loose index scan, which reads one row for each shape.
-- Served by waits_by_shape (workspace, event, shape_hash, match_hash, run_id, step) where by_topic = 1.
with recursive shapes (shape_hash) as (
    select (
        select min(shape_hash)
        from waits
        where by_topic = 1
            and workspace = :workspace
            and event = :event
            and shape_hash >= :from
    )
    union all
    select (
        select min(waits.shape_hash)
        from waits
        where by_topic = 1
            and workspace = :workspace
            and event = :event
            and waits.shape_hash > shapes.shape_hash
    )
    from shapes
    where shapes.shape_hash is not null
)
select
    shapes.shape_hash,
    (
        select shape
        from waits
        where by_topic = 1
            and workspace = :workspace
            and event = :event
            and waits.shape_hash = shapes.shape_hash
        limit 1
    ) as shape
from shapes
where shapes.shape_hash is not null
limit :limit
