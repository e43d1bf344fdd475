-- The number of keys of a workspace that are neither revoked nor expired, and of all keys of one-time links.
-- Reads the whole table: it has one row per key. A node executes it at most every five seconds per workspace.
select count(*)
from api_keys
where workspace = :workspace
    and (
        maker is not null
        or (
            revoked_at is null
            and (
                expires_at is null
                or expires_at > :now
            )
        )
    )
