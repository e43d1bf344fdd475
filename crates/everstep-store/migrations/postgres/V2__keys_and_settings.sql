-- API keys, and settings that all nodes share.

-- Who may call. A key is known by its SHA-256; permissions are words with spaces between them.
create table api_keys (
    id uuid not null primary key,
    workspace uuid not null,
    name text not null,
    hash bytea not null,
    permissions text not null,
    created_at bigint not null,
    revoked_at bigint,
    constraint keys_have_one_hash unique (hash),
    constraint hashes_are_sha_256 check (length(hash) = 32)
);

-- The first writer's value is everyone's.
create table settings (
    name text collate "C" not null primary key,
    value bytea not null
);
