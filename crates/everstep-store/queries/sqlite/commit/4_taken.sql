-- Deletes an inbox row that the item answers, of its own run only.
-- Served by the primary key of inbox.
delete from inbox
where id = :id
    and run_id = :run
