-- Files: bytes that a person uploads, and that a request to a state machine then names.
-- The previous release continues to work beside this one: it does not know the tables.

-- A file is unfinished while it has no digest, unbound while it has no seq, and reserved if it has a run and no seq.
-- `expires_at` is when an unbound file expires, and when the run of a bound file is looked for again.
create table files (
    id uuid not null,
    workspace uuid not null,
    run_id uuid,
    seq bigint,
    size bigint not null,
    created_at bigint not null,
    expires_at bigint not null,
    uploaded_by text collate "C" not null,
    name text not null,
    media_type text not null,
    sha256 bytea,
    constraint files_key primary key (id),
    constraint reserved_files_are_finished check (run_id is null or sha256 is not null),
    constraint bound_files_have_a_run check (seq is null or run_id is not null)
) with (fillfactor = 85);

create index files_unbound on files (workspace, uploaded_by)
where seq is null;

create index files_expiring on files (expires_at);

-- The bytes of files, in order. All chunks of a file have the same size, except the last one.
create table file_chunks (
    file uuid not null,
    chunk integer not null,
    bytes bytea not null,
    constraint file_chunks_key primary key (file, chunk)
);

alter table file_chunks alter column bytes set storage external;
