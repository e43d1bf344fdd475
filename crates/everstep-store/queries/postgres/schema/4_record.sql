-- Records a migration, as refinery does.
-- Served by the primary key of refinery_schema_history.
insert into refinery_schema_history (version, name, applied_on, checksum)
values (:version, :name, to_char(now() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), :checksum)
