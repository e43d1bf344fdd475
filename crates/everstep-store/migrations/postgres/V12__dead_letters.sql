-- Dead letters: work that failed permanently, of every source, with everything that a requeue needs.
-- The previous release continues to work beside this one: it neither reads nor writes this table.

-- `taken_by` is the node that performs a requeue, `notice_by` the node that sends the notice to operations. A node that
-- has been fenced holds nothing. `error` is the code of the last attempt; `reason` is that of a discard.
create table dead_letters (
    workspace uuid not null,
    id uuid not null,
    created_at bigint not null,
    changed_at bigint not null,
    notified_at bigint,
    run_id uuid,
    history uuid,
    event uuid,
    subscription uuid,
    taken_by uuid,
    notice_by uuid,
    is_notice_due boolean not null default true,
    status text collate "C" not null default 'dead',
    source text collate "C" not null,
    kind text collate "C" not null,
    workflow text collate "C",
    step text collate "C",
    delivery text collate "C" not null,
    target text not null,
    error text collate "C" not null,
    reason text,
    secrets text not null,
    attempts text not null,
    written bytea,
    config bytea not null,
    constraint dead_letters_key primary key (workspace, id),
    constraint dead_letter_statuses check (status in ('dead', 'queued', 'delivered', 'discarded')),
    constraint only_queued_letters_are_taken check (taken_by is null or status = 'queued')
);

create index dead_letters_by_status on dead_letters (workspace, status, id);

create index dead_letters_of_runs on dead_letters (workspace, run_id, id)
where run_id is not null;

-- For the nodes that take queued ones, and for retention.
create index dead_letters_by_change on dead_letters (status, changed_at, id);

create index dead_letters_to_notify on dead_letters (id)
where is_notice_due;
