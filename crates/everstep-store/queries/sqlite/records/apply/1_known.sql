-- The digest and the output of an applied op.
-- Served by store_changes_by_op (workspace, op_key).
select digest, output
from store_changes
where workspace = :workspace
    and op_key = :op_key
