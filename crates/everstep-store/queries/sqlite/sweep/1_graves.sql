-- The runs whose rows are gone and of whose journals something is left.
-- Reads the whole table: it has a row per journal that a sweep stopped in, which is one at most.
select run_id
from graves
