-- No statement needs this index: events and signals find waits by waits_by_shape and by the primary key.
drop index waits_by_event;
