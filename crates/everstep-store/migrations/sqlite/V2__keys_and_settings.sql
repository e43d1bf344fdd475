-- API keys, and settings that all nodes share.

-- Who may call. A key is known by its SHA-256; permissions are words with spaces between them.
create table api_keys (
    id blob not null primary key,
    workspace blob not null,
    name text not null,
    hash blob not null,
    permissions text not null,
    created_at integer not null,
    revoked_at integer,
    constraint keys_have_one_hash unique (hash),
    constraint key_ids_are_uuids check (length(id) = 16),
    constraint hashes_are_sha_256 check (length(hash) = 32)
) strict;

-- The first writer's value is everyone's.
create table settings (
    name text not null primary key,
    value blob not null
) strict;
