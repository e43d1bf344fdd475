-- The part of a fan-out that writes the dead letters of its slices: the workflows that an event could not start. It is added
-- to fan_out.sql only if a slice has such rows. Served by the primary key of dead_letters (workspace, id).
dead_lettered as (
    insert into dead_letters (
        workspace, id, created_at, changed_at, run_id, history, event, subscription, source, kind, workflow, step,
        delivery, target, error, secrets, written, attempts, config
    )
    select
        workspace, id, created_at, created_at, run, history, event, subscription, source, kind, workflow, step,
        delivery, target, error, secrets, written, attempts, config
    from unnest(
        :letter_gates::uuid[], :letter_workspaces::uuid[], :letter_ids::uuid[], :letter_created_at::bigint[],
        :letter_runs::uuid[], :letter_histories::uuid[], :letter_events::uuid[], :letter_subscriptions::uuid[],
        :letter_sources::text[], :letter_kinds::text[], :letter_workflows::text[], :letter_steps::text[],
        :letter_deliveries::text[], :letter_targets::text[], :letter_errors::text[], :letter_secrets::text[],
        :letter_written::bytea[], :letter_attempts::text[], :letter_configs::bytea[]
    ) as new (
        gate, workspace, id, created_at, run, history, event, subscription, source, kind, workflow, step, delivery,
        target, error, secrets, written, attempts, config
    )
    where (new.gate in (select gate.id from gate)) is true
    order by new.workspace, new.id
    on conflict do nothing
)
