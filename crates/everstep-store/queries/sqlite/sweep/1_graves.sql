-- The deleted runs whose journals still have entries.
-- Reads the whole table: it has a row per journal that a sweep deleted partly, at most one.
select run_id
from graves
