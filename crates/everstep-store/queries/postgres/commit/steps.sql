-- Writes the items of many runs that contain only entries of runs that the node owns: the part of all.sql that
-- most commits need. Setting up the rest of it would cost a commit of one step more than the commit itself.
-- Served by the primary keys of nodes and runs, journal_by_seq and journal_by_attempt.
with
member as materialized (
    select id
    from nodes
    where id = :node
        and not fenced
    for key share
),
head as (
    insert into journal (run_id, seq, writer, commit_id, at, kind, step, attempt, codec, payload)
    select run, seq, :node, commit, at, kind, step, attempt, codec, payload
    from unnest(
        :head_runs::uuid[], :head_is_unowned::boolean[], :head_seqs::bigint[], :head_commits::uuid[],
        :head_at::bigint[], :head_kinds::smallint[], :head_steps::text[], :head_attempts::integer[],
        :head_codecs::smallint[], :head_payloads::bytea[]
    ) as head (run, is_unowned, seq, commit, at, kind, step, attempt, codec, payload)
    where exists (select from member)
        and not is_unowned
        and (select owner = :node from runs where id = run)
    on conflict do nothing
    returning run_id
),
appended as (
    insert into journal (run_id, seq, writer, commit_id, at, kind, step, attempt, codec, payload)
    select run, seq, :node, commit, at, kind, step, attempt, codec, payload
    from unnest(
        :entry_runs::uuid[], :entry_seqs::bigint[], :entry_commits::uuid[], :entry_at::bigint[],
        :entry_kinds::smallint[], :entry_steps::text[], :entry_attempts::integer[],
        :entry_codecs::smallint[], :entry_payloads::bytea[]
    ) as entry (run, seq, commit, at, kind, step, attempt, codec, payload)
    where (run in (select run_id from head)) is true
)
select
    exists (select from member),
    (select array_agg(run_id) from head),
    null::bigint[],
    null::bigint[],
    null::uuid[]
