-- Search attributes: the terms by which runs are found, and indexes for lists by status and by code of an error.
-- The previous release continues to work beside this one: it writes no terms. So tags are looked up only among runs that
-- were created after every node can have been upgraded, and search attributes since a node of this release saved them.

-- The paths of the input that the active version of a workflow declares. Every run of the workflow that was created at
-- `since` or later has its terms.
create table search_attributes (
    workspace uuid not null,
    workflow text collate "C" not null,
    path text collate "C" not null,
    since bigint not null,
    constraint search_attributes_key primary key (workspace, workflow, path)
);

-- The values of a run by which it is found. Paths begin with "input." or "tag.". Written with the run's start, deleted
-- with the run, never changed.
create table run_terms (
    run uuid not null,
    workspace uuid not null,
    created_at bigint not null,
    workflow text collate "C" not null,
    path text collate "C" not null,
    value text collate "C" not null,
    constraint run_terms_key primary key (run, path)
);

create index run_terms_by_value on run_terms (workspace, path, value, created_at, run, workflow);

-- The time from which on all runs have the terms of their tags.
insert into settings (name, value)
select 'tag_terms_since', convert_to(
    case
        when exists (select from runs) or exists (select from nodes) then ((extract(epoch from clock_timestamp()) + 3600) * 1000000)::bigint
        else 0
    end::text,
    'UTF8'
);

-- A run that starts, runs and completes at once is never in this index.
create index runs_by_status on runs (workspace, status, created_at, id)
where status not in ('running', 'completed') and not is_test;

-- The code is the first field of an error. It is read without parsing the whole text, because the message may contain
-- characters that PostgreSQL cannot process; codes with other characters, or long ones, are not in the index.
create index runs_by_error on runs (
    workspace, (left(substring(error from '^\{"code":"([^"\\]*)"'), 200)), created_at, id
)
where error is not null and not is_test;
