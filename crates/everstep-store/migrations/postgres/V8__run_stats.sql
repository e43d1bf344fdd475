-- Figures of each minute, for charts: runs of a workflow that started and ended, and how long they took.
-- Durations are counted in 24 buckets.
create table run_stats (
    workspace uuid not null,
    minute bigint not null,
    workflow text collate "C" not null,
    started bigint not null,
    completed bigint not null,
    failed bigint not null,
    cancelled bigint not null,
    durations bigint[] not null,
    constraint run_stats_key primary key (workspace, minute, workflow),
    constraint durations_have_24_buckets check (cardinality(durations) = 24)
);
