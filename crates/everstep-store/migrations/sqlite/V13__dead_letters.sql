-- Dead letters: work that failed permanently, of every source, with everything that a requeue needs.

-- `taken_by` is the node that performs a requeue, `notice_by` the node that sends the notice to operations. A node that
-- has been fenced holds nothing. `error` is the code of the last attempt; `reason` is that of a discard.
create table dead_letters (
    workspace blob not null,
    id blob not null,
    created_at integer not null,
    changed_at integer not null,
    notified_at integer,
    run_id blob,
    history blob,
    event blob,
    subscription blob,
    taken_by blob,
    notice_by blob,
    is_notice_due integer not null default 1,
    status text not null default 'dead',
    source text not null,
    kind text not null,
    workflow text,
    step text,
    delivery text not null,
    target text not null,
    error text not null,
    reason text,
    secrets text not null,
    attempts text not null,
    written blob,
    config blob not null,
    constraint dead_letters_key primary key (workspace, id),
    constraint dead_letter_statuses check (status in ('dead', 'queued', 'delivered', 'discarded')),
    constraint dead_letter_ids_are_uuids check (length(id) = 16),
    constraint only_queued_letters_are_taken check (taken_by is null or status = 'queued')
) strict;

create index dead_letters_by_status on dead_letters (workspace, status, id);

create index dead_letters_of_runs on dead_letters (workspace, run_id, id)
where run_id is not null;

-- For the nodes that take queued ones, and for retention.
create index dead_letters_by_change on dead_letters (status, changed_at, id);

create index dead_letters_to_notify on dead_letters (id)
where is_notice_due = 1;
