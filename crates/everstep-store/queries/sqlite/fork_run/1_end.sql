-- The last entry of the item that contains an entry. An item's first entry names its proposal.
-- Served by the primary key of runs and journal_by_seq (run_id, seq).
select coalesce(
    (
        select seq
        from journal
        where run_id = :source
            and seq > :at
            and commit_id is not null
        order by seq
        limit 1
    ) - 1,
    (
        select max(seq)
        from journal
        where run_id = :source
    )
)
from runs
where id = :source
    and workspace = :workspace
    and exists (
        select 1
        from journal
        where run_id = :source
            and seq = :at
    )
