-- The periodic work of a node, once a second: renews its lease, releases runs of fenced owners,
-- claims due runs of each lane up to its room, reads the inbox, and whether the fan-out of an event is stalled. Does nothing if the node is fenced or unknown.
-- The workspaces share the places of the server's own lane, which has room for :limit runs (claim_runs/3_shares).
-- Served by the primary keys of nodes, runs and inbox, runs_owned (owner), runs_claimable (lane, wake_at, id)
-- events_open (id) where fanned_at is null and journal_by_seq (run_id, seq). The inbox rows of an unowned run without a journal are left out: its start takes them.
-- All parts see the snapshot at the beginning of the statement: the next tick claims the runs that this one releases.
with recursive
clock as materialized (
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint as micros
),
renewed as (
    update nodes
    set lease_until = clock.micros + :lease
    from clock
    where nodes.id = :node
        and not nodes.fenced
    returning nodes.lease_until
),
member as materialized (
    select from renewed
),
orphan as materialized (
    select run.id
    from nodes
    cross join lateral (
        select id
        from runs
        where owner = nodes.id
        limit :release
        for update skip locked
    ) as run
    where nodes.fenced
        and exists (select from member)
    limit :release
),
released as (
    update runs
    set owner = null, wake_at = :now
    from orphan
    where runs.id = orphan.id
    returning runs.id
),
oldest as materialized (
    select run.id, lane.place
    from unnest(:lanes::text[], :rooms::bigint[]) with ordinality as lane (name, room, place)
    cross join lateral (
        select id
        from runs
        where runs.lane = lane.name
            and owner is null
            and ended_at is null
            and wake_at <= :now
            and format <= :format
            and id not in (select id from share)
        order by wake_at, id
        limit lane.room - case when lane.name = '' then (select count(*) from share) else 0 end
        for update skip locked
    ) as run
    where exists (select from member)
),
claimed as (
    update runs
    set owner = :node
    from (
        select id, array_position(:lanes::text[], '')::bigint as place
        from share
        union all
        select id, place
        from oldest
    ) as due
    where runs.id = due.id
    returning runs.id, runs.workspace, runs.wake_at, due.place
),
ranked as (
    select id, wake_at, place, row_number() over (partition by place, workspace order by wake_at, id) as round
    from claimed
),
arrival as materialized (
    select id, run_id, input
    from inbox
    where (
            select ended_at is null
                and case
                    when owner is not null then owner = :node
                    when status in ('pending', 'paused') then exists (select from journal where journal.run_id = runs.id)
                    else true
                end
            from runs
            where runs.id = inbox.run_id
        )
        and exists (select from member)
    order by id
    limit :inbox
),
listed as materialized (
    select
        nodes.id,
        coalesce(renewed.lease_until, nodes.lease_until) as lease_until,
        nodes.fenced,
        nodes.address
    from nodes
    left join renewed on nodes.id = :node
)
select
    clock.micros,
    exists (select from member),
    (select array_agg(id order by id) from listed),
    (select array_agg(lease_until order by id) from listed),
    (select array_agg(fenced order by id) from listed),
    (select array_agg(lease_until <= clock.micros order by id) from listed),
    (select array_agg(address order by id) from listed),
    (select count(*) from released),
    (select array_agg(id order by place, round, wake_at, id) from ranked),
    (select array_agg(id order by id) from arrival),
    (select array_agg(run_id order by id) from arrival),
    (select array_agg(input order by id) from arrival),
    coalesce(
        (select id < :stalled from events where fanned_at is null order by id limit 1),
        false
    ),
    (select workspace from visit order by visits desc limit 1)
from clock
