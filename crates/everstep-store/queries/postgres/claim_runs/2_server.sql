-- Makes one member the owner of at most :limit claimable runs of the server's own lane, of formats that this build knows.
-- If more are due, the workspaces share the places (3_shares), and the places that remain go to the oldest runs. The runs
-- are returned in rounds: the oldest one of each workspace, then the second one of each, and so on.
-- Served by runs_claimable (lane, wake_at, id) where owner is null and ended_at is null.
with recursive
member as materialized (
    select id
    from nodes
    where id = :node
        and not fenced
    for key share
),
oldest as materialized (
    select id
    from runs
    where lane = ''
        and owner is null
        and ended_at is null
        and wake_at <= :now
        and format <= :format
        and exists (select from member)
        and id not in (select id from share)
    order by wake_at, id
    limit :limit - (select count(*) from share)
    for update skip locked
),
claimed as (
    update runs
    set owner = :node
    from (select id from share union all select id from oldest) as due
    where runs.id = due.id
    returning runs.id, runs.workspace, runs.wake_at
),
ranked as (
    select id, wake_at, row_number() over (partition by workspace order by wake_at, id) as round
    from claimed
)
select
    exists (select from member),
    (select array_agg(id order by round, wake_at, id) from ranked),
    (select workspace from visit order by visits desc limit 1)
