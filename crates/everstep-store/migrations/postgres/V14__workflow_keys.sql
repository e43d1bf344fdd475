-- The idempotency keys of changes of workflows, each with the version that its response names. Written with the change.
create table workflow_keys (
    workspace uuid not null,
    name text collate "C" not null,
    key text collate "C" not null,
    digest text collate "C" not null,
    version integer not null,
    at bigint not null,
    constraint workflow_keys_key primary key (workspace, name, key)
);

-- Serves the sweep.
create index workflow_keys_by_time on workflow_keys (at);
