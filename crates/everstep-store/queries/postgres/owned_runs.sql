-- Lists the runs that a node owns.
-- Served by runs_owned (owner) where owner is not null.
select id
from runs
where owner = :node
order by id
