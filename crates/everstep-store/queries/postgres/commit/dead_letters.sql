-- The part of a commit that writes the dead letters of its items. It is added to all.sql after published.sql, only if an
-- item has such rows. A row that exists does not change. Served by the primary key of dead_letters (workspace, id).
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
    where (gate in (select run from opened)) is true
    order by workspace, id
    on conflict do nothing
)
