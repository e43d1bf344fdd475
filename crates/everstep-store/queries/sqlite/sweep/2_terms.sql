-- Deletes a run's terms.
-- Served by the primary key of run_terms (run, path).
delete from run_terms
where run = :run
