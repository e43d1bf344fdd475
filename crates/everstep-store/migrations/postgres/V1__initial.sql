-- The first schema: nodes, workflows, runs with their journals, and what waits for a run.
-- Ids are UUID v7, times are microseconds since 1970 (so that "never" is a time, as on SQLite),
-- JSON is bytes unless it is queried. Long bytes are compressed by us, never by the database.
-- Texts that are compared are compared byte by byte, whatever the database's language.
-- Nothing refers to runs by a foreign key: that would lock their rows.

-- Who may write. A fenced node never writes again. Renewals stay on the page.
create table nodes (
    id uuid not null primary key,
    lease_until bigint not null,
    fenced boolean not null default false,
    address text
) with (fillfactor = 20);

-- Versions are immutable.
create table workflows (
    workspace uuid not null,
    name text collate "C" not null,
    version integer not null,
    style text not null,
    definition bytea not null,
    digest text not null,
    retention_days bigint not null,
    created_at bigint not null,
    constraint workflows_key primary key (workspace, name, version),
    constraint versions_count_from_one check (version >= 1)
);

-- The version that new runs take.
create table workflow_heads (
    workspace uuid not null,
    name text collate "C" not null,
    version integer not null,
    constraint workflow_heads_key primary key (workspace, name)
);

-- Written at start, park, claim, status change and end: never per step.
-- The small columns stand first: what gates and claims look at needs no long value.
create table runs (
    id uuid not null primary key,
    owner uuid,
    wake_at bigint not null,
    ended_at bigint,
    created_at bigint not null,
    retention_days bigint not null,
    expires_at bigint generated always as (
        ended_at + case
            when is_test then 3600000000
            else least(retention_days, 1000000) * 86400000000
        end
    ) stored,
    workspace uuid not null,
    parent uuid,
    format integer not null,
    version integer not null,
    is_test boolean not null,
    status text collate "C" not null,
    workflow text collate "C" not null,
    lane text collate "C" not null,
    idempotency_scope text collate "C",
    idempotency_key text collate "C",
    tags json not null,
    error text,
    input json not null,
    output bytea,
    constraint statuses_are_known check (
        status in ('pending', 'running', 'waiting', 'paused', 'completed', 'failed', 'cancelled')
    ),
    constraint ended_runs_have_an_end_time check (
        (status in ('completed', 'failed', 'cancelled')) = (ended_at is not null)
    ),
    constraint ended_runs_have_no_owner check (ended_at is null or owner is null),
    constraint keys_have_a_scope check ((idempotency_scope is null) = (idempotency_key is null))
) with (fillfactor = 85);

alter table runs
    alter column input set storage external,
    alter column output set storage external;

create index runs_claimable on runs (lane, wake_at, id)
where owner is null and ended_at is null;

create index runs_owned on runs (owner)
where owner is not null;

create unique index runs_keyed on runs (workspace, idempotency_scope, idempotency_key)
where idempotency_key is not null;

create index runs_listed on runs (workspace, created_at, id)
where not is_test;

create index runs_listed_by_workflow on runs (workspace, workflow, created_at, id)
where not is_test;

create index runs_expiring on runs (expires_at)
where ended_at is not null;

-- The only truth: entries are appended, never changed.
-- A partition holds the runs of one week, which their ids tell. It is made ahead, and dropped with its last run.
create table journal (
    run_id uuid not null,
    writer uuid not null,
    commit_id uuid,
    seq bigint not null,
    at bigint not null,
    attempt integer not null,
    kind smallint not null,
    codec smallint not null,
    step text collate "C",
    payload bytea not null,
    constraint entries_count_from_one check (seq >= 1)
) partition by range (run_id);

alter table journal alter column payload set storage external;

create unique index journal_by_seq on journal (run_id, seq);

-- **Invariant**: an attempt of a step is dispatched, completed and failed at most once.
-- 2 is StepDispatched, 3 StepCompleted, 4 StepFailed.
create unique index journal_by_attempt on journal (run_id, step, attempt, kind)
where kind between 2 and 4;

-- Inputs that need no answer. Ids are never reused, and rise in the order in which one sender sends.
create sequence inbox_ids;

create table inbox (
    id bigint not null primary key,
    run_id uuid not null,
    workspace uuid not null,
    created_at bigint not null,
    input bytea not null
);

alter table inbox alter column input set storage external;

create index inbox_by_run on inbox (run_id, id);

-- The steps that wait for a signal.
create table waits (
    run_id uuid not null,
    step text collate "C" not null,
    workspace uuid not null,
    event text collate "C" not null,
    deadline bigint,
    pattern bytea not null,
    constraint waits_key primary key (run_id, step)
);

create index waits_by_event on waits (workspace, event, run_id, step);

-- Folded states of long journals. One per run, replaced.
create table snapshots (
    run_id uuid not null primary key,
    seq bigint not null,
    format integer not null,
    codec smallint not null,
    state bytea not null
);

alter table snapshots alter column state set storage external;

-- How many runs of a workflow have each status. Deltas are added; runs are never counted.
create table workflow_counts (
    workspace uuid not null,
    workflow text collate "C" not null,
    status text collate "C" not null,
    n bigint not null,
    constraint workflow_counts_key primary key (workspace, workflow, status)
) with (fillfactor = 50);
