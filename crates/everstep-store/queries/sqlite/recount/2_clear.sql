-- Deletes all counts.
-- Reads the whole table: it has a row per workflow and status.
delete from workflow_counts
