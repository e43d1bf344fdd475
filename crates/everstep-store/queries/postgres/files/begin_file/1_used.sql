-- The bytes of the unbound files of a person. A small file counts as :least bytes.
-- Served by files_unbound (workspace, uploaded_by).
select coalesce(sum(greatest(size, :least)), 0)::bigint
from files
where workspace = :workspace
    and uploaded_by = :uploaded_by
    and seq is null
