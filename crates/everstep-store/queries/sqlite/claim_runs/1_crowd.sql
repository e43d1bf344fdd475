-- Whether more than :limit runs of a lane can be claimed.
-- Served by runs_claimable (lane, wake_at, id) where owner is null and ended_at is null.
select exists (
    select 1
    from runs
    where lane = :lane
        and owner is null
        and ended_at is null
        and wake_at <= :now
        and format <= :format
    limit 1
    offset :limit
)
