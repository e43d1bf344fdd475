-- Inserts a term of a new run.
insert into run_terms (run, workspace, created_at, workflow, path, value)
values (:run, :workspace, :created_at, :workflow, :path, :value)
