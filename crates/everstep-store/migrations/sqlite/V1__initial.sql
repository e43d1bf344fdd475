-- The first schema: nodes, workflows, runs with their journals, and what waits for a run.
-- Ids are 16 bytes (UUID v7), times are microseconds since 1970, JSON is bytes unless it is queried.
-- Nothing refers to runs by a foreign key.

-- Who may write. A fenced node never writes again.
create table nodes (
    id blob not null primary key,
    lease_until integer not null,
    fenced integer not null default 0,
    address text,
    constraint node_ids_are_uuids check (length(id) = 16),
    constraint nodes_are_fenced_or_not check (fenced in (0, 1))
) strict;

-- Versions are immutable.
create table workflows (
    workspace blob not null,
    name text not null,
    version integer not null,
    style text not null,
    definition blob not null,
    digest text not null,
    retention_days integer not null,
    created_at integer not null,
    constraint workflows_key primary key (workspace, name, version),
    constraint versions_count_from_one check (version >= 1)
) strict;

-- The version that new runs take.
create table workflow_heads (
    workspace blob not null,
    name text not null,
    version integer not null,
    constraint workflow_heads_key primary key (workspace, name)
) strict, without rowid;

-- Written at start, park, claim, status change and end: never per step.
-- The small columns stand first: what gates and claims look at is then on the row's first page.
create table runs (
    id blob not null primary key,
    owner blob,
    wake_at integer not null,
    ended_at integer,
    status text not null,
    format integer not null,
    workspace blob not null,
    workflow text not null,
    version integer not null,
    lane text not null,
    idempotency_scope text,
    idempotency_key text,
    parent blob,
    retention_days integer not null,
    is_test integer not null,
    created_at integer not null,
    tags text not null,
    error text,
    input text not null,
    output blob,
    expires_at integer generated always as (
        ended_at + case
            when is_test = 1 then 3600000000
            else min(retention_days, 1000000) * 86400000000
        end
    ) virtual,
    constraint run_ids_are_uuids check (length(id) = 16),
    constraint statuses_are_known check (
        status = 'pending' or status = 'running' or status = 'waiting' or status = 'paused'
        or status = 'completed' or status = 'failed' or status = 'cancelled'
    ),
    constraint ended_runs_have_an_end_time check (
        (status = 'completed' or status = 'failed' or status = 'cancelled') = (ended_at is not null)
    ),
    constraint ended_runs_have_no_owner check (ended_at is null or owner is null),
    constraint keys_have_a_scope check ((idempotency_scope is null) = (idempotency_key is null)),
    constraint runs_are_tests_or_not check (is_test in (0, 1))
) strict;

create index runs_claimable on runs (lane, wake_at, id)
where owner is null and ended_at is null;

create index runs_owned on runs (owner)
where owner is not null;

create unique index runs_keyed on runs (workspace, idempotency_scope, idempotency_key)
where idempotency_key is not null;

create index runs_listed on runs (workspace, created_at, id)
where is_test = 0;

create index runs_listed_by_workflow on runs (workspace, workflow, created_at, id)
where is_test = 0;

create index runs_expiring on runs (expires_at)
where ended_at is not null;

-- The only truth: entries are appended, never changed.
create table journal (
    run_id blob not null,
    seq integer not null,
    writer blob not null,
    commit_id blob,
    at integer not null,
    kind integer not null,
    step text,
    attempt integer not null,
    codec integer not null,
    payload blob not null,
    constraint entries_count_from_one check (seq >= 1)
) strict;

create unique index journal_by_seq on journal (run_id, seq);

-- **Invariant**: an attempt of a step is dispatched, completed and failed at most once.
-- 2 is StepDispatched, 3 StepCompleted, 4 StepFailed. (A list in place of the range costs a b-tree per insert.)
create unique index journal_by_attempt on journal (run_id, step, attempt, kind)
where kind between 2 and 4;

-- Inputs that need no answer. Ids are never reused, so that they can be read on from the last one.
create table inbox (
    id integer primary key autoincrement,
    run_id blob not null,
    workspace blob not null,
    created_at integer not null,
    input blob not null
) strict;

create index inbox_by_run on inbox (run_id, id);

-- The steps that wait for a signal.
create table waits (
    run_id blob not null,
    step text not null,
    workspace blob not null,
    event text not null,
    deadline integer,
    pattern blob not null,
    constraint waits_key primary key (run_id, step)
) strict;

create index waits_by_event on waits (workspace, event, run_id, step);

-- Folded states of long journals. One per run, replaced.
create table snapshots (
    run_id blob not null primary key,
    seq integer not null,
    format integer not null,
    codec integer not null,
    state blob not null
) strict;

-- How many runs of a workflow have each status. Deltas are added; runs are never counted.
create table workflow_counts (
    workspace blob not null,
    workflow text not null,
    status text not null,
    n integer not null,
    constraint workflow_counts_key primary key (workspace, workflow, status)
) strict, without rowid;
