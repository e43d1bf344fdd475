-- Writes a dead letter, unless it exists. Served by the primary key of dead_letters (workspace, id).
insert into dead_letters (
    workspace, id, created_at, changed_at, run_id, history, event, subscription, source, kind, workflow, step, delivery,
    target, error, secrets, attempts, written, config
)
values (
    :workspace, :id, :created_at, :created_at, :run, :history, :event, :subscription, :source, :kind, :workflow, :step,
    :delivery, :target, :error, :secrets, :attempts, :written, :config
)
on conflict do nothing
