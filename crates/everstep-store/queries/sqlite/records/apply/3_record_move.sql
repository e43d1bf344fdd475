-- Moves a record to the end of its table. No other record has its row number :row, which is never used again while the
-- table has a later row.
-- Served by the row numbers.
update records
set rowid = (select max(rowid) + 1 from records)
where rowid = :row
