-- Waits for an event with one of the pairs of hashes, in the order of their positions. Each pair has the run and the
-- step after which its waits begin.
-- Served by waits_by_shape (workspace, event, shape_hash, match_hash, run_id, step) where by_topic, which is searched
-- once per pair.
select found.run_id, found.step, found.pattern, wanted.shape_hash, wanted.match_hash
from unnest(:shape_hashes::bigint[], :match_hashes::bigint[], :runs::uuid[], :steps::text[])
    as wanted (shape_hash, match_hash, run_id, step)
cross join lateral (
    select waits.run_id, waits.step, waits.pattern
    from waits
    where waits.by_topic
        and waits.workspace = :workspace
        and waits.event = :event
        and waits.shape_hash = wanted.shape_hash
        and waits.match_hash = wanted.match_hash
        and (waits.run_id, waits.step) > (wanted.run_id, wanted.step)
    order by waits.shape_hash, waits.match_hash, waits.run_id, waits.step
    limit :limit
) as found
order by wanted.shape_hash, found.run_id, found.step
limit :limit
