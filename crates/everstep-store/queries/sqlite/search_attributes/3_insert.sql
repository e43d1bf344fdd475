-- Inserts a search attribute of a workflow.
insert into search_attributes (workspace, workflow, path, since)
values (:workspace, :name, :path, :since)
