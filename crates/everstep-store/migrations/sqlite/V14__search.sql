-- Search attributes: the terms by which runs are found, and indexes for lists by status and by code of an error.

-- The paths of the input that the active version of a workflow declares. Every run of the workflow that was created at
-- `since` or later has its terms.
create table search_attributes (
    workspace blob not null,
    workflow text not null,
    path text not null,
    since integer not null,
    constraint search_attributes_key primary key (workspace, workflow, path)
) strict, without rowid;

-- The values of a run by which it is found. Paths begin with "input." or "tag.". Written with the run's start, deleted
-- with the run, never changed.
create table run_terms (
    run blob not null,
    workspace blob not null,
    created_at integer not null,
    workflow text not null,
    path text not null,
    value text not null,
    constraint run_terms_key primary key (run, path)
) strict, without rowid;

create index run_terms_by_value on run_terms (workspace, path, value, created_at, run, workflow);

-- The time from which on all runs have the terms of their tags.
insert into settings (name, value)
select 'tag_terms_since', cast(
    case
        when exists (select 1 from runs) then cast(unixepoch('subsec') * 1000000 as integer)
        else 0
    end as blob
);

-- A run that starts, runs and completes at once is never in this index.
create index runs_by_status on runs (workspace, status, created_at, id)
where status not in ('running', 'completed') and is_test = 0;

create index runs_by_error on runs (workspace, error ->> '$.code', created_at, id)
where error is not null and is_test = 0;
