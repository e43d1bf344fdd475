-- The part of a commit that binds files to their runs. It is added to all.sql after published.sql, only if an item has
-- files. A file is bound if it is reserved for the run of its item and not bound. Otherwise its entry is inserted a
-- second time: a seq that exists is an error, and the item a conflict. Served by the primary key of files (id).
bound as (
    update files
    set seq = new.seq
    from unnest(:bound_runs::uuid[], :bound_files::uuid[], :bound_seqs::bigint[]) as new (run, file, seq)
    where files.id = new.file
        and files.run_id = new.run
        and files.seq is null
        and (new.run in (select run from opened)) is true
    returning files.id
),
unbound as (
    insert into journal (run_id, seq, writer, commit_id, at, kind, step, attempt, codec, payload)
    select run, seq, :node, null, 0, 0, null, 0, 0, ''
    from unnest(:bound_runs::uuid[], :bound_files::uuid[], :bound_seqs::bigint[]) as new (run, file, seq)
    where (run in (select run from opened)) is true
        and (file in (select id from bound)) is not true
)
