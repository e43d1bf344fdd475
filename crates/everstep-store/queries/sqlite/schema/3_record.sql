-- Records a migration. The time is for people who read the table.
-- Served by the primary key of everstep_migrations.
insert into everstep_migrations (version, name, checksum, applied_at)
values (:version, :name, :checksum, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
