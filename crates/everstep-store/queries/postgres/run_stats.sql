-- The figures of periods, of all workflows or of one, by the number of the period.
-- Served by the primary key of run_stats (workspace, minute, workflow).
select
    ((minute - :since) / :every)::bigint as period,
    sum(started)::bigint,
    sum(completed)::bigint,
    sum(failed)::bigint,
    sum(cancelled)::bigint,
    array[
        sum(durations[1]),
        sum(durations[2]),
        sum(durations[3]),
        sum(durations[4]),
        sum(durations[5]),
        sum(durations[6]),
        sum(durations[7]),
        sum(durations[8]),
        sum(durations[9]),
        sum(durations[10]),
        sum(durations[11]),
        sum(durations[12]),
        sum(durations[13]),
        sum(durations[14]),
        sum(durations[15]),
        sum(durations[16]),
        sum(durations[17]),
        sum(durations[18]),
        sum(durations[19]),
        sum(durations[20]),
        sum(durations[21]),
        sum(durations[22]),
        sum(durations[23]),
        sum(durations[24])
    ]::bigint[]
from run_stats
where workspace = :workspace
    and minute >= :since
    and minute < :until
    and (:workflow::text is null or workflow = :workflow)
group by period
order by period
