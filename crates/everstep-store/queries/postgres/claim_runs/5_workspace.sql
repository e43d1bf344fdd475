-- Makes one member the owner of at most :limit claimable runs of one workspace in the server's own lane, of formats that
-- this build knows, oldest first.
-- Served by runs_claimable_by_workspace (lane, workspace, wake_at, id) where owner is null and ended_at is null and
-- wake_at is not the last time.
with
member as materialized (
    select id
    from nodes
    where id = :node
        and not fenced
    for key share
),
due as materialized (
    select id
    from runs
    where lane = ''
        and owner is null
        and ended_at is null
        and wake_at <> 9223372036854775807
        and workspace >= :workspace
        and (workspace, wake_at) <= (:workspace, :now)
        and format <= :format
        and exists (select from member)
    order by workspace, wake_at, id
    limit :limit
    for update skip locked
),
claimed as (
    update runs
    set owner = :node
    from due
    where runs.id = due.id
    returning runs.id, runs.wake_at
)
select
    exists (select from member),
    (select array_agg(id order by wake_at, id) from claimed)
