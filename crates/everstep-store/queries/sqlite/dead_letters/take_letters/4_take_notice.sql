-- Takes the notice of a dead letter.
-- Served by the primary key of dead_letters (workspace, id).
update dead_letters
set notice_by = :node
where workspace = :workspace
    and id = :id
