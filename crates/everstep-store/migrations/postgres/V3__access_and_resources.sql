-- Workspaces, what keys may do and for how long, who did what, resources of workspaces, deleted workflows
-- and forked runs. What was there before stays as it was: the previous release goes on beside this one.

alter table api_keys
    add column role text,
    add column rate_limit bigint,
    add column expires_at bigint;

-- Tenants. The options are JSON.
create table workspaces (
    id uuid not null primary key,
    name text collate "C" not null,
    options bytea not null,
    created_at bigint not null,
    constraint workspaces_have_one_name unique (name)
);

insert into workspaces (id, name, options, created_at)
values (
    '00000000-0000-0000-0000-000000000001', 'default', convert_to('{}', 'UTF8'),
    (extract(epoch from now()) * 1000000)::bigint
);

-- Who did what. Ids are UUID v7 of the time at which it was done, so that the key is its order.
create table audit (
    workspace uuid not null,
    id uuid not null,
    at bigint not null,
    actor text collate "C" not null,
    action text collate "C" not null,
    target text not null,
    details bytea not null,
    constraint audit_key primary key (workspace, id)
);

-- Secrets, data sources and saved queries: bytes that somebody else can read.
create table resources (
    workspace uuid not null,
    kind text collate "C" not null,
    name text collate "C" not null,
    body bytea not null,
    created_at bigint not null,
    updated_at bigint not null,
    constraint resources_key primary key (workspace, kind, name),
    constraint kinds_are_known check (kind in ('secret', 'source', 'query'))
);

-- The newest version that a workflow had when it was deleted. It and those before it are found by their number
-- only, and go some time after the last run that refers to one of them. Numbers are never used again.
create table deleted_workflows (
    workspace uuid not null,
    name text collate "C" not null,
    version integer not null,
    -- When to look whether its versions can go; null once they are gone.
    look_at bigint,
    constraint deleted_workflows_key primary key (workspace, name)
);

-- The run that a run was forked from.
alter table runs add column origin uuid;

create index runs_by_parent on runs (parent, created_at, id)
where parent is not null;

create index runs_of_tests on runs (workspace, workflow, version)
where is_test;

-- Nothing was counted before.
delete from workflow_counts;

insert into workflow_counts (workspace, workflow, status, n)
select workspace, workflow, status, count(*)
from runs
where not is_test
group by workspace, workflow, status;
