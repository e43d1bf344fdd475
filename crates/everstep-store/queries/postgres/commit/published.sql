-- The part of a commit that writes the events that its runs publish. It is added to all.sql after audited.sql, only if
-- an item has such rows. Served by the primary key of events (id, workspace) and events_by_source.
published as (
    insert into events (workspace, id, topic, source, event_id, at, depth, subject, codec, data)
    select workspace, id, topic, source, event_id, at, depth, subject, 0, data
    from unnest(
        :published_runs::uuid[], :published_workspaces::uuid[], :published_ids::uuid[], :published_topics::text[],
        :published_sources::text[], :published_event_ids::text[], :published_at::bigint[],
        :published_depths::integer[], :published_subjects::text[], :published_data::bytea[]
    ) as new (run, workspace, id, topic, source, event_id, at, depth, subject, data)
    where (run in (select run from opened)) is true
    order by workspace, source, event_id
    on conflict do nothing
)
