-- The part of a commit that writes the terms of the runs that it starts. It is added to runs.sql or to all.sql after the
-- other parts, only if a new run has terms. Written to run_terms_key (run, path) and run_terms_by_value.
indexed as (
    insert into run_terms (run, workspace, created_at, workflow, path, value)
    select run, workspace, created_at, workflow, path, value
    from unnest(
        :term_runs::uuid[], :term_workspaces::uuid[], :term_created_at::bigint[], :term_workflows::text[],
        :term_paths::text[], :term_values::text[]
    ) as new (run, workspace, created_at, workflow, path, value)
    where (run in (select run from opened)) is true
)
