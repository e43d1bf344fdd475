-- Adds a change. Its number and the key of its op are unique.
-- Served by the primary key of store_changes (workspace, namespace, change) and store_changes_by_op.
insert into store_changes (
    workspace, namespace, change, at, expires_at, action, subject, actor, run_id, step, op_key, digest, revision,
    value_type, value_expires_at, output, codec, value
)
values (
    :workspace, :namespace, :change, :at, :expires_at, :action, :subject, :actor, :run, :step, :op_key, :digest, :revision,
    :value_type, :value_expires_at, :output, :codec, :value
)
