-- No statement needs this index: events and signals find waits by waits_by_shape and by the primary key. PostgreSQL
-- chose it for the waits of an event when the table was empty at the time of the plan, and then read and sorted all of
-- them.
drop index waits_by_event;
