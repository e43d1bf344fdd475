-- The position of the last of :look runs of one parent before a position, if so many exist.
-- Served by runs_by_parent (parent, created_at, id) where parent is not null; "is true" prevents the use of other indexes.
select created_at, id
from runs
where (workspace = :workspace) is true
    and not is_test
    and parent = :parent
    and (created_at, id) < (:before, :before_id)
    and created_at >= :since
order by created_at desc, id desc
offset :look - 1
limit 1
