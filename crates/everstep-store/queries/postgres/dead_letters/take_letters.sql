-- Takes queued dead letters in the order in which they were queued, and notices to be sent. Rows that another statement
-- has locked are left out. A node that is fenced holds nothing. A row that this node has taken is returned again unless
-- :held or :held_notices names it: the reply to the statement that took it was lost.
-- Served by the primary keys of nodes and dead_letters, dead_letters_by_change (status, changed_at, id) and
-- dead_letters_to_notify (id) where is_notice_due.
with
-- The node may write until this transaction ends: a fence waits for the lock, a renewal does not.
member as materialized (
    select id
    from nodes
    where id = :node
        and not fenced
    for key share
),
queued as materialized (
    select workspace, id
    from dead_letters as letter
    where status = 'queued'
        and source in ('delivery', 'start')
        and exists (select from member)
        and workspace <> all (:crowded::uuid[])
        and not exists (
            select from unnest(:crowded_workspaces::uuid[], :crowded_kinds::text[], :crowded_prefixes::text[])
                as crowded (workspace, kind, prefix)
            where crowded.workspace = letter.workspace
                and crowded.kind = letter.kind
                and (
                    starts_with(letter.target || '/', crowded.prefix)
                    -- A backslash ends the host of a URL as a slash does.
                    or starts_with(letter.target, left(crowded.prefix, -1) || chr(92))
                )
        )
        and id <> all (:held::uuid[])
        and case
            when taken_by is null or taken_by = :node then true
            else not exists (select from nodes where nodes.id = letter.taken_by and not nodes.fenced)
        end
    order by changed_at, id
    limit :letters_max
    for update of letter skip locked
),
unnotified as materialized (
    select workspace, id
    from dead_letters as letter
    where is_notice_due
        and id >= :notices_since
        and source in ('delivery', 'start')
        and exists (select from member)
        and case
            when notice_by is null then true
            when notice_by = :node then id <> all (:held_notices::uuid[])
            else not exists (select from nodes where nodes.id = letter.notice_by and not nodes.fenced)
        end
    order by id
    limit :notices_max
    for update of letter skip locked
),
changed as (
    update dead_letters as letter
    set
        taken_by = case when chosen.is_queued then :node else letter.taken_by end,
        notice_by = case when chosen.is_due then :node else letter.notice_by end
    from (
        select workspace, id, bool_or(is_queued) as is_queued, bool_or(not is_queued) as is_due
        from (
            select workspace, id, true as is_queued from queued
            union all
            select workspace, id, false from unnotified
        ) as each
        group by workspace, id
    ) as chosen
    where letter.workspace = chosen.workspace
        and letter.id = chosen.id
    returning
        chosen.is_queued, chosen.is_due,
        letter.workspace, letter.id, letter.created_at, letter.changed_at, letter.notified_at, letter.run_id,
        letter.history, letter.event, letter.subscription, letter.taken_by, letter.status, letter.source,
        letter.kind, letter.workflow, letter.step, letter.delivery, letter.target, letter.reason,
        letter.secrets, letter.attempts,
        case when chosen.is_queued then letter.written end,
        case when chosen.is_queued then letter.config end
)
select (select count(*) from member), changed.*
from (select 1) as always
left join changed on true
order by changed.changed_at, changed.id
