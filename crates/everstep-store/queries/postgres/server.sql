-- The server's version, whether it can be written to, our user, and the schema of our tables;
-- and whether the settings of the connection have reached it.
-- Needs no index.
select
    current_setting('server_version_num')::integer,
    current_setting('server_version'),
    pg_is_in_recovery() or current_setting('transaction_read_only')::boolean,
    current_user::text,
    current_schema()::text,
    (extract(epoch from clock_timestamp()) * 1000000)::bigint,
    coalesce(current_setting('everstep.is_direct', true), '') = 'on'
