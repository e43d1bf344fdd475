-- A run's row with all columns, its snapshot, the entries after it, and the inputs that wait for the run. One statement
-- sees one moment. At most :limit entries and :limit inputs; a run with more is read by the other statements.
-- Served by the primary keys of runs and snapshots, journal_by_seq (run_id, seq) and inbox_by_run (run_id, id).
select
    runs.id, owner, wake_at, ended_at, status, runs.format, workspace, workflow, version, lane,
    idempotency_scope, idempotency_key, parent, retention_days, is_test, created_at,
    origin, tags::text, error, runs.input::text, output, runs.state, version_no, trigger::text, start::text,
    (select coalesce(max(seq), 0) from journal where run_id = :run),
    snapshots.seq, snapshots.format, snapshots.codec, snapshots.state,
    entries.seqs, entries.times, entries.writers, entries.commits, entries.kinds, entries.steps, entries.attempts,
    entries.codecs, entries.payloads,
    arrivals.ids, arrivals.inputs
from runs
left join snapshots on snapshots.run_id = runs.id
cross join lateral (
    select
        array_agg(seq) as seqs,
        array_agg(at) as times,
        array_agg(writer) as writers,
        array_agg(commit_id) as commits,
        array_agg(kind) as kinds,
        array_agg(step) as steps,
        array_agg(attempt) as attempts,
        array_agg(codec) as codecs,
        array_agg(payload) as payloads
    from (
        select seq, at, writer, commit_id, kind, step, attempt, codec, payload
        from journal
        where run_id = :run
            and seq > coalesce(snapshots.seq, 0)
        order by seq
        limit :limit
    ) as entry
) as entries
cross join lateral (
    select
        array_agg(id) as ids,
        array_agg(input) as inputs
    from (
        select id, input
        from inbox
        where run_id = :run
        order by id
        limit :limit
    ) as arrival
) as arrivals
where runs.id = :run
