-- Deletes a link.
-- Served by the primary key of links (workspace, id).
delete from links
where workspace = :workspace
    and id = :id
