-- Topics: published events with their fan-out, subscriptions, and the columns of runs and waits that they need.
-- The previous release continues to work beside this one: it leaves the new columns at their defaults, and does not
-- claim runs that an event started.

-- Immutable facts. Only the columns of the fan-out change: `cursor` is its position, and the gate of its slices.
-- The id is time-ordered. `slices` is the number of slices so far, `matched` counts what they have reached.
create table events (
    workspace uuid not null,
    id uuid not null,
    at bigint not null,
    fanned_at bigint,
    depth integer not null,
    slices integer not null default 0,
    matched_workflows bigint not null default 0,
    matched_waits bigint not null default 0,
    failed bigint not null default 0,
    codec smallint not null,
    replay_of uuid,
    replay_to uuid,
    topic text collate "C" not null,
    source text collate "C" not null,
    event_id text collate "C" not null,
    cursor text collate "C" not null default '',
    subject text,
    extensions bytea,
    data bytea not null,
    constraint events_key primary key (id, workspace),
    constraint replays_have_a_target check ((replay_of is null) = (replay_to is null))
) with (fillfactor = 85);

alter table events alter column data set storage external;

-- A source publishes an id once.
create unique index events_by_source on events (workspace, source, event_id);

create index events_by_topic on events (workspace, topic, id);

create index events_listed on events (workspace, id);

create index events_open on events (id)
where fanned_at is null;

-- What the slices of an event have reached, as JSON; one row per slice.
create table event_results (
    event uuid not null,
    slice integer not null,
    workspace uuid not null,
    codec smallint not null,
    results bytea not null,
    constraint event_results_key primary key (event, slice)
);

alter table event_results alter column results set storage external;

-- Patterns with a target. `head` is the pattern before its first wildcard. `origin` is the workflow whose active version
-- declares the subscription; null if a caller has created it.
create table subscriptions (
    workspace uuid not null,
    id uuid not null,
    created_at bigint not null,
    paused_at bigint,
    pattern text collate "C" not null,
    head text collate "C" not null,
    origin text collate "C",
    target text not null,
    filter bytea,
    input bytea,
    constraint subscriptions_key primary key (id, workspace)
);

create index subscriptions_by_head on subscriptions (workspace, head, id);

create index subscriptions_listed on subscriptions (workspace, id);

create index subscriptions_of_workflows on subscriptions (workspace, origin)
where origin is not null;

-- Why a run was started, unless a caller or another run has started it; and what a start that has not begun needs.
alter table runs
    add column trigger json,
    add column start json;

create index runs_by_trigger on runs (workspace, (trigger ->> 'id'), created_at, id)
where trigger is not null;

-- How an event finds the waits that it resolves. Rows of the previous release have no hashes, and may be for signals.
alter table waits
    add column by_topic boolean not null default true,
    add column shape text collate "C",
    add column shape_hash bigint,
    add column match_hash bigint,
    add constraint hashes_have_a_shape check (
        (shape_hash is null) = (shape is null) and (match_hash is null) = (shape is null)
    );

create index waits_by_shape on waits (workspace, event, shape_hash, match_hash, run_id, step)
where by_topic;
