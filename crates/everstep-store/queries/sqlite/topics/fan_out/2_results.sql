-- Writes the results of a slice.
-- Served by the primary key of event_results (event, slice).
insert into event_results (event, slice, workspace, codec, results)
values (:event, :slice, :workspace, :codec, :results)
