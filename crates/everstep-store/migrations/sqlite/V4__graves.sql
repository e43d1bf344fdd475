-- Runs whose rows are gone and of whose journals something is left: a long journal goes in several transactions.
create table graves (
    run_id blob not null primary key,
    constraint grave_ids_are_uuids check (length(run_id) = 16)
) strict, without rowid;
