-- Deletes keys of one-time links that expired before :before.
-- Reads the whole table: it has one row per key.
delete from api_keys
where maker is not null
    and expires_at < :before
