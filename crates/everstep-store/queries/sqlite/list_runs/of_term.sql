-- At most :limit runs with one of two terms, before a position, newest first. Test runs have no terms.
-- Served by run_terms_by_value (workspace, path, value, created_at, run, workflow), and the primary key of runs. The
-- outer loop of the join determines the order.
select
    runs.id, runs.workflow, version, status, wake_at, error, tags, runs.created_at, ended_at, parent, origin,
    state, version_no, input, idempotency_key, trigger
from (
    select created_at, run
    from run_terms
    where workspace = :workspace
        and path = :path
        and value = :value
        and (:workflow is null or workflow = :workflow)
        and (created_at, run) < (:before, :before_id)
        and created_at >= :since
    union all
    select created_at, run
    from run_terms
    where workspace = :workspace
        and path = :path
        and value = :other
        and (:workflow is null or workflow = :workflow)
        and (created_at, run) < (:before, :before_id)
        and created_at >= :since
    order by 1 desc, 2 desc
    limit :limit
) as found
cross join runs on runs.id = found.run
