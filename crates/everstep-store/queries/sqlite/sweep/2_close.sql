-- Forgets a run of whose journal nothing is left.
-- Served by the primary key of graves.
delete from graves
where run_id = :run
