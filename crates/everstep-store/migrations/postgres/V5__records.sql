-- Records and links, which outlive runs, with their namespaces and changes; and who has saved a version.
-- The existing tables keep their rows: the previous release continues to work beside this one.

-- The gate of every write into a namespace: it numbers the changes. The row of an emptied namespace remains, so that
-- the numbers continue. Updates stay on the page.
create table store_namespaces (
    workspace uuid not null,
    name text collate "C" not null,
    changes bigint not null,
    keys bigint not null,
    links bigint not null,
    bytes bigint not null,
    updated_at bigint not null,
    constraint store_namespaces_key primary key (workspace, name),
    constraint namespaces_have_changes check (changes >= 1)
) with (fillfactor = 50);

-- Values by namespace and key. `bytes` is the size of the JSON text, whatever its codec.
create table records (
    workspace uuid not null,
    id uuid not null,
    revision bigint not null,
    change bigint not null,
    bytes bigint not null,
    expires_at bigint,
    created_at bigint not null,
    updated_at bigint not null,
    run_id uuid,
    codec smallint not null,
    value_type text collate "C" not null,
    namespace text collate "C" not null,
    key text collate "C" not null,
    step text collate "C",
    value bytea not null,
    constraint records_key primary key (workspace, namespace, key),
    constraint revisions_count_from_one check (revision >= 1)
) with (fillfactor = 85);

alter table records alter column value set storage external;

create index records_expiring on records (expires_at)
where expires_at is not null;

-- Typed edges between identifiers. The primary key begins with the id, and not with the workspace as the other indexes
-- do: while statistics are missing, the planner would otherwise search a link in another index, by its workspace alone.
create table links (
    workspace uuid not null,
    id uuid not null,
    change bigint not null,
    created_at bigint not null,
    updated_at bigint not null,
    run_id uuid,
    namespace text collate "C" not null,
    left_type text collate "C" not null,
    left_id text collate "C" not null,
    right_type text collate "C" not null,
    right_id text collate "C" not null,
    relation text collate "C" not null,
    step text collate "C",
    attributes bytea not null,
    constraint links_key primary key (id, workspace),
    constraint links_have_one_edge unique (workspace, namespace, left_type, left_id, right_type, right_id, relation)
);

alter table links alter column attributes set storage external;

create index links_reversed on links (workspace, namespace, right_type, right_id, relation, left_type, left_id);

-- The effects of applied ops, numbered within their namespace. The first row of an op has its key and its output.
-- `expires_at` is when the row is deleted; `value_expires_at` is when the written record expires.
-- The primary key begins with the namespace, so that no op key is searched in it by its workspace alone.
create table store_changes (
    workspace uuid not null,
    change bigint not null,
    at bigint not null,
    expires_at bigint not null,
    revision bigint,
    value_expires_at bigint,
    run_id uuid,
    codec smallint,
    namespace text collate "C" not null,
    action text collate "C" not null,
    subject text collate "C" not null,
    actor text collate "C" not null,
    step text collate "C",
    value_type text collate "C",
    op_key text collate "C",
    digest bytea,
    value bytea,
    output bytea,
    constraint store_changes_key primary key (namespace, workspace, change)
);

alter table store_changes
    alter column value set storage external,
    alter column output set storage external;

create unique index store_changes_by_op on store_changes (workspace, op_key)
where op_key is not null;

create index store_changes_expiring on store_changes (expires_at);

-- Who has saved a version, and with which permissions its steps write. Null: saved before this release.
alter table workflows
    add column publisher text,
    add column permissions text;
