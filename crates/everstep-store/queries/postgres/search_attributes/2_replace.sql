-- Deletes the search attributes of a workflow that its active version does not declare, and inserts the new ones.
-- Served by the primary key of search_attributes (workspace, workflow, path).
with removed as (
    delete from search_attributes
    where workspace = :workspace
        and workflow = :name
        and path = any(:removed::text[])
)
insert into search_attributes (workspace, workflow, path, since)
select :workspace, :name, path, :since
from unnest(:added::text[]) as added (path)
