-- Adds rows to the audit, in the order of their keys, unless they exist.
-- Served by the primary key of audit (workspace, id).
insert into audit (workspace, id, at, actor, action, target, details)
select workspace, id, at, actor, action, target, details
from unnest(
    :workspaces::uuid[], :ids::uuid[], :at::bigint[], :actors::text[], :actions::text[], :targets::text[],
    :details::bytea[]
) as new (workspace, id, at, actor, action, target, details)
order by workspace, id
on conflict do nothing
