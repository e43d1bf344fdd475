-- Deletes at most :limit dead letters that have not changed since a time: dead ones since :dead_before, delivered and
-- discarded ones since :settled_before. Returns their number.
-- Served by dead_letters_by_change (status, changed_at, id) and the primary key of dead_letters (workspace, id).
with
old as materialized (
    select found.workspace, found.id
    from (
        values ('dead', :dead_before::bigint), ('delivered', :settled_before::bigint), ('discarded', :settled_before::bigint)
    ) as kept (status, before)
    cross join lateral (
        select workspace, id
        from dead_letters
        where dead_letters.status = kept.status
            and dead_letters.changed_at < kept.before
        order by changed_at, id
        limit :limit
        for update skip locked
    ) as found
    limit :limit
),
deleted as (
    delete from dead_letters
    using old
    where dead_letters.workspace = old.workspace
        and dead_letters.id = old.id
    returning dead_letters.id
)
select count(*)
from deleted
