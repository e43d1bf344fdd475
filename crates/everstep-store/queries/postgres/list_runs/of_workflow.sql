-- At most :limit runs of one workflow before a place, newest first. Test runs are left out.
-- Served by runs_listed_by_workflow (workspace, workflow, created_at, id) where not is_test.
select id, workflow, version, status, wake_at, error, tags::text, created_at, ended_at
from runs
where workspace = :workspace
    and workflow = :workflow
    and not is_test
    and (created_at, id) < (:before, :before_id)
    and created_at >= :since
    and (:status::text is null or status = :status)
order by created_at desc, id desc
limit :limit
