-- Records and links, which outlive runs, with their namespaces and changes; and who has saved a version.
-- The existing tables keep their rows: the previous release continues to work beside this one.

-- The gate of every write into a namespace: it numbers the changes. The row of an emptied namespace remains, so that
-- the numbers continue.
create table store_namespaces (
    workspace blob not null,
    name text not null,
    changes integer not null,
    keys integer not null,
    links integer not null,
    bytes integer not null,
    updated_at integer not null,
    constraint store_namespaces_key primary key (workspace, name),
    constraint namespaces_have_changes check (changes >= 1)
) strict, without rowid;

-- Values by namespace and key. `bytes` is the size of the JSON text, whatever its codec.
-- The value is the last column, so that the others are on the row's first page.
create table records (
    workspace blob not null,
    namespace text not null,
    key text not null,
    id blob not null,
    revision integer not null,
    change integer not null,
    bytes integer not null,
    value_type text not null,
    expires_at integer,
    created_at integer not null,
    updated_at integer not null,
    run_id blob,
    step text,
    codec integer not null,
    value blob not null,
    constraint records_key primary key (workspace, namespace, key),
    constraint record_ids_are_uuids check (length(id) = 16),
    constraint revisions_count_from_one check (revision >= 1)
) strict;

create index records_expiring on records (expires_at)
where expires_at is not null;

-- Typed edges between identifiers.
create table links (
    workspace blob not null,
    id blob not null,
    namespace text not null,
    left_type text not null,
    left_id text not null,
    right_type text not null,
    right_id text not null,
    relation text not null,
    change integer not null,
    created_at integer not null,
    updated_at integer not null,
    run_id blob,
    step text,
    attributes blob not null,
    constraint links_key primary key (workspace, id),
    constraint links_have_one_edge unique (workspace, namespace, left_type, left_id, right_type, right_id, relation),
    constraint link_ids_are_uuids check (length(id) = 16)
) strict;

create index links_reversed on links (workspace, namespace, right_type, right_id, relation, left_type, left_id);

-- The effects of applied ops, numbered within their namespace. The first row of an op has its key and its output.
-- `expires_at` is when the row is deleted; `value_expires_at` is when the written record expires.
create table store_changes (
    workspace blob not null,
    namespace text not null,
    change integer not null,
    at integer not null,
    expires_at integer not null,
    action text not null,
    subject text not null,
    actor text not null,
    run_id blob,
    step text,
    op_key text,
    digest blob,
    revision integer,
    value_type text,
    value_expires_at integer,
    output blob,
    codec integer,
    value blob,
    constraint store_changes_key primary key (workspace, namespace, change)
) strict, without rowid;

create unique index store_changes_by_op on store_changes (workspace, op_key)
where op_key is not null;

create index store_changes_expiring on store_changes (expires_at);

-- Who has saved a version, and with which permissions its steps write. Null: saved before this release.
alter table workflows add column publisher text;
alter table workflows add column permissions text;
