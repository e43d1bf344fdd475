-- Whether a node may write: it has joined and is not fenced.
-- Served by the primary key of nodes.
select 1
from nodes
where id = :node
    and fenced = 0
