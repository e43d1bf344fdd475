-- The idempotency keys of changes of workflows, each with the version that its response names. Written with the change.
create table workflow_keys (
    workspace blob not null,
    name text not null,
    key text not null,
    digest text not null,
    version integer not null,
    at integer not null,
    constraint workflow_keys_key primary key (workspace, name, key)
) strict, without rowid;

-- Serves the sweep.
create index workflow_keys_by_time on workflow_keys (at);
