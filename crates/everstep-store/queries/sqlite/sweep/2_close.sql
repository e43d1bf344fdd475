-- Removes the record of a deleted run whose journal has no entries left.
-- Served by the primary key of graves.
delete from graves
where run_id = :run
