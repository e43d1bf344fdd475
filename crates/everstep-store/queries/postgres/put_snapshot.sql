-- Replaces the snapshot of an existing run, unless a later one exists.
-- Served by the primary keys of runs and snapshots.
insert into snapshots (run_id, seq, format, codec, state)
select id, :seq, :format, :codec, :state
from runs
where id = :run
on conflict (run_id) do update
set seq = excluded.seq, format = excluded.format, codec = excluded.codec, state = excluded.state
where excluded.seq >= snapshots.seq
