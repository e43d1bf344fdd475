-- Workspaces, what keys may do and for how long, who did what, resources of workspaces, deleted workflows
-- and forked runs. What was there before stays as it was: the previous release goes on beside this one.

alter table api_keys add column role text;
alter table api_keys add column rate_limit integer;
alter table api_keys add column expires_at integer;

-- Tenants. The options are JSON.
create table workspaces (
    id blob not null primary key,
    name text not null,
    options blob not null,
    created_at integer not null,
    constraint workspaces_have_one_name unique (name),
    constraint workspace_ids_are_uuids check (length(id) = 16)
) strict;

insert into workspaces (id, name, options, created_at)
values (x'00000000000000000000000000000001', 'default', cast('{}' as blob), unixepoch() * 1000000);

-- Who did what. Ids are UUID v7 of the time at which it was done, so that the key is its order.
create table audit (
    workspace blob not null,
    id blob not null,
    at integer not null,
    actor text not null,
    action text not null,
    target text not null,
    details blob not null,
    constraint audit_key primary key (workspace, id),
    constraint audit_ids_are_uuids check (length(id) = 16)
) strict, without rowid;

-- Secrets, data sources and saved queries: bytes that somebody else can read.
create table resources (
    workspace blob not null,
    kind text not null,
    name text not null,
    body blob not null,
    created_at integer not null,
    updated_at integer not null,
    constraint resources_key primary key (workspace, kind, name),
    constraint kinds_are_known check (kind = 'secret' or kind = 'source' or kind = 'query')
) strict, without rowid;

-- The newest version that a workflow had when it was deleted. It and those before it are found by their number
-- only, and go some time after the last run that refers to one of them. Numbers are never used again.
create table deleted_workflows (
    workspace blob not null,
    name text not null,
    version integer not null,
    -- When to look whether its versions can go; null once they are gone.
    look_at integer,
    constraint deleted_workflows_key primary key (workspace, name)
) strict, without rowid;

-- The run that a run was forked from.
alter table runs add column origin blob;

create index runs_by_parent on runs (parent, created_at, id)
where parent is not null;

create index runs_of_tests on runs (workspace, workflow, version)
where is_test = 1;

-- Nothing was counted before.
delete from workflow_counts;

insert into workflow_counts (workspace, workflow, status, n)
select workspace, workflow, status, count(*)
from runs
where is_test = 0
group by workspace, workflow, status;
