-- Takes a queued dead letter.
-- Served by the primary key of dead_letters (workspace, id).
update dead_letters
set taken_by = :node
where workspace = :workspace
    and id = :id
