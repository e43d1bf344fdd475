-- The position of the last of :look runs of a workspace before a position, if so many exist.
-- Served by runs_listed (workspace, created_at, id) where not is_test.
select created_at, id
from runs
where workspace = :workspace
    and not is_test
    and (created_at, id) < (:before, :before_id)
    and created_at >= :since
order by created_at desc, id desc
offset :look - 1
limit 1
