-- The number of the last row of records; null if there is none.
-- Served by the row numbers.
select max(rowid)
from records
