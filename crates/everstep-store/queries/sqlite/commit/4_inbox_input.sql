-- Sends an input to a run.
-- Served by the primary key of inbox.
insert into inbox (run_id, workspace, created_at, input)
values (:to, :workspace, :now, :input)
