-- Why items were rejected, in their order: the run that has the key of a start, the entry that has the seq of the
-- head, and the run's owner.
-- Served by runs_keyed, journal_by_seq (run_id, seq) and the primary key of runs.
select
    (
        select id
        from runs
        where workspace = refused.workspace
            and idempotency_scope = refused.scope
            and idempotency_key = refused.key
    ),
    journal.run_id is not null,
    journal.commit_id,
    runs.id is not null,
    runs.owner
from unnest(
    :runs::uuid[], :seqs::bigint[], :workspaces::uuid[], :scopes::text[], :keys::text[]
) with ordinality as refused (run, seq, workspace, scope, key, place)
left join journal on journal.run_id = refused.run and journal.seq = refused.seq
left join runs on runs.id = refused.run
order by refused.place
