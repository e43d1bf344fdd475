-- Moves a record to the end of its table. SQLite does not reuse the row number :row while a larger one exists.
-- Served by the row numbers.
update records
set rowid = (select max(rowid) + 1 from records)
where rowid = :row
