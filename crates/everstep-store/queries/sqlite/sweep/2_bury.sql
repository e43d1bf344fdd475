-- Remembers that something is left of the journal of a run whose row is gone.
insert into graves (run_id)
values (:run)
