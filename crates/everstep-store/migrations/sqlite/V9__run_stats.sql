-- Figures of each minute, for charts: runs of a workflow that started and ended, and how long they took.
-- Durations are counted in 24 buckets, a JSON array.
create table run_stats (
    workspace blob not null,
    minute integer not null,
    workflow text not null,
    started integer not null,
    completed integer not null,
    failed integer not null,
    cancelled integer not null,
    durations text not null,
    constraint run_stats_key primary key (workspace, minute, workflow),
    constraint durations_have_24_buckets check (json_array_length(durations) = 24)
) strict, without rowid;
