-- When the next unowned run of a lane, of a format that this build knows, is due.
-- Served by runs_claimable (lane, wake_at, id) where owner is null and ended_at is null.
select wake_at
from runs
where lane = :lane
    and owner is null
    and ended_at is null
    and format <= :format
order by wake_at
limit 1
