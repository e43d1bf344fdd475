-- What server this is, whether it may be written to, who we are in it, and where our tables go;
-- and whether what we set when we connected has come through.
-- Needs no index.
select
    current_setting('server_version_num')::integer,
    current_setting('server_version'),
    pg_is_in_recovery() or current_setting('transaction_read_only')::boolean,
    current_user::text,
    current_schema()::text,
    (extract(epoch from clock_timestamp()) * 1000000)::bigint,
    coalesce(current_setting('everstep.is_direct', true), '') = 'on'
