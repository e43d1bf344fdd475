-- Adds a row to the audit, unless it exists.
-- Served by the primary key of audit (workspace, id).
insert into audit (workspace, id, at, actor, action, target, details)
values (:workspace, :id, :at, :actor, :action, :target, :details)
on conflict do nothing
