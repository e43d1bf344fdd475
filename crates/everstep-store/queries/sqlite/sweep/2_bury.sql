-- Records that the journal of a deleted run still has entries.
insert into graves (run_id)
values (:run)
