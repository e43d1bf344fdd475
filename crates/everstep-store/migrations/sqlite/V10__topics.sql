-- Topics: published events with their fan-out, subscriptions, and the columns of runs and waits that they need.

-- Immutable facts. Only the columns of the fan-out change: `cursor` is its position, and the gate of its slices.
-- The id is time-ordered. `slices` is the number of slices so far, `matched` counts what they have reached.
create table events (
    workspace blob not null,
    id blob not null,
    topic text not null,
    source text not null,
    event_id text not null,
    at integer not null,
    depth integer not null,
    subject text,
    extensions blob,
    replay_of blob,
    replay_to blob,
    cursor text not null default '',
    slices integer not null default 0,
    matched_workflows integer not null default 0,
    matched_waits integer not null default 0,
    failed integer not null default 0,
    fanned_at integer,
    codec integer not null,
    data blob not null,
    constraint events_key primary key (workspace, id),
    constraint event_ids_are_uuids check (length(id) = 16),
    constraint replays_have_a_target check ((replay_of is null) = (replay_to is null))
) strict;

-- A source publishes an id once.
create unique index events_by_source on events (workspace, source, event_id);

create index events_by_topic on events (workspace, topic, id);

create index events_open on events (id)
where fanned_at is null;

-- What the slices of an event have reached, as JSON; one row per slice.
create table event_results (
    event blob not null,
    slice integer not null,
    workspace blob not null,
    codec integer not null,
    results blob not null,
    constraint event_results_key primary key (event, slice)
) strict;

-- Patterns with a target. `head` is the pattern before its first wildcard. `origin` is the workflow whose active version
-- declares the subscription; null if a caller has created it.
create table subscriptions (
    workspace blob not null,
    id blob not null,
    pattern text not null,
    head text not null,
    filter blob,
    target text not null,
    input blob,
    origin text,
    paused_at integer,
    created_at integer not null,
    constraint subscriptions_key primary key (workspace, id),
    constraint subscription_ids_are_uuids check (length(id) = 16)
) strict;

create index subscriptions_by_head on subscriptions (workspace, head, id);

create index subscriptions_of_workflows on subscriptions (workspace, origin)
where origin is not null;

-- Why a run was started, unless a caller or another run has started it; and what a start that has not begun needs.
alter table runs add column trigger text;

alter table runs add column start text;

create index runs_by_trigger on runs (workspace, trigger ->> '$.id', created_at, id)
where trigger is not null;

-- How an event finds the waits that it resolves. Rows of the previous release have no hashes, and may be for signals.
alter table waits add column by_topic integer not null default 1;

alter table waits add column shape text;

alter table waits add column shape_hash integer;

alter table waits add column match_hash integer;

create index waits_by_shape on waits (workspace, event, shape_hash, match_hash, run_id, step)
where by_topic = 1;
