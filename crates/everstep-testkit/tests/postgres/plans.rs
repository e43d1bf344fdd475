//! Plans: the cost of a verb does not grow with unrelated rows.

use std::sync::Arc;

use everstep_core::actor::Actor;
use everstep_core::dead_letter::DeadLetterStatus;
use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::publisher::Publisher;
use everstep_core::records::{ExpireRequest, LinkQuery, OpAction, RecordQuery, UnlinkRequest};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::topics::{Trigger, TriggerKind};
use everstep_store::postgres::{Options, PostgresStore};
use everstep_store::{
    AccessStore, AuditFilter, AuditRow, ChangeKey, ChangeQuery, Counts, DeadLetterClaim, DeadLetterFilter,
    DeadLetterOutcome, DeadLetterQuery, DeadLetterResult, DeadLetterRetention, DeadLetterStore, EventQuery,
    EventResult, EventSlice, FileStore, HeldStart, Item, MinuteStats, NamespaceQuery, NewFork, NewRun, NewWorkflow,
    Precondition, Projection, RecordKey, RecordStore, RegistrationOutcome, ReserveOutcome, ResourceKind, ResourceRow,
    ResourceStore, RunFilter, RunStats, RunStore, SideWrites, SliceOutcome, Snapshot, StatsQuery, SubscriptionQuery,
    TickRequest, TopicStore, UnmatchedEvents, Wait, WaitChange, WaitKind, WorkflowStore,
};
use everstep_testkit::contract::{fixtures::*, run};
use everstep_testkit::postgres::{Cluster, Durability};
use serde_json::json;
use uuid::Uuid;

/// Other runs: most of them sleep, some are owned by others, some have ended.
const OTHERS: &str = "
    insert into nodes (id, lease_until) select gen_random_uuid(), 9e15 from generate_series(1, 3);
    insert into runs (id, owner, wake_at, ended_at, status, format, workspace, workflow, version, lane,
        retention_days, is_test, created_at, tags, input)
    select ('01990000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
        case when n % 10 = 0 then (select id from nodes offset n % 3 limit 1) end,
        9e15, case when n % 10 = 1 then 1 end,
        case when n % 10 = 1 then 'completed' else 'waiting' end, 1, gen_random_uuid(), 'other', 1, '', 365000, false, n,
        '[]', 'null'
    from generate_series(1, 20000) as n;
    insert into runs (id, wake_at, status, format, workspace, workflow, version, lane, retention_days, is_test,
        created_at, tags, input, state, version_no, parent, origin, idempotency_scope, idempotency_key)
    select ('01990000-0000-7000-8001-' || lpad(to_hex(n), 12, '0'))::uuid, 9e15, 'waiting', 2,
        '00000000-0000-0000-0000-00000000000a', 'orders', 1, '', 365000, false, 9e15 + n, '[]', 'null', 'draft', 1,
        '00000000-0000-0000-0000-00000000000a', '00000000-0000-0000-0000-00000000000a', 'orders', n::text
    from generate_series(1, 20000) as n;
    insert into journal (run_id, seq, writer, at, kind, attempt, codec, payload)
    select id, 1, id, 0, 1, 0, 0, '' from runs where workflow = 'other';
    insert into inbox (id, run_id, workspace, created_at, input)
    select nextval('inbox_ids'), id, workspace, 9e15, '' from runs where owner is not null;
    insert into waits (run_id, step, workspace, event, pattern)
    select id, 's', workspace, 'other', '' from runs where ended_at is null
    on conflict do nothing;
    insert into waits (run_id, step, workspace, event, pattern, kind)
    select id, 'a', workspace, 'other', '{}', 'approval' from runs where ended_at is null
    on conflict do nothing;
    insert into waits (run_id, step, workspace, event, pattern)
    select id, 'h', '00000000-0000-0000-0000-000000000001', 'other', '' from runs where ended_at is null
    on conflict do nothing;
    insert into run_stats (workspace, minute, workflow, started, completed, failed, cancelled, durations)
    select workspace, 1, 'other', 1, 1, 1, 1, array_fill(1::bigint, array[24]) from runs where workflow = 'other';
    insert into run_stats (workspace, minute, workflow, started, completed, failed, cancelled, durations)
    select '00000000-0000-0000-0000-000000000001', 1000000 + n, 'other', 1, 1, 1, 1, array_fill(1::bigint, array[24])
    from generate_series(1, 20000) as n;
    insert into workflow_counts (workspace, workflow, status, n)
    select workspace, 'other', 'running', 1 from runs where workflow = 'other';
    insert into workflows (workspace, name, version, style, definition, digest, retention_days, created_at)
    select '00000000-0000-0000-0000-000000000001', 'of many versions', n, 'graph', '', n, 7, 0
    from generate_series(1, 20000) as n;
    insert into deleted_workflows (workspace, name, version, look_at)
    values ('00000000-0000-0000-0000-000000000001', 'other', 1, 0);
    insert into workflows (workspace, name, version, style, definition, digest, retention_days, created_at)
    select '00000000-0000-0000-0000-000000000001', 'drawn', n, 'graph', '', n, 7, 0
    from generate_series(1, 3) as n
    on conflict do nothing;
    insert into deleted_workflows (workspace, name, version)
    values ('00000000-0000-0000-0000-000000000001', 'drawn', 3);
    insert into workflow_keys (workspace, name, key, digest, version, at)
    select '00000000-0000-0000-0000-000000000001', 'orders', 'other ' || n, '', 1, 9e15
    from generate_series(1, 20000) as n;
    insert into audit (workspace, id, at, actor, action, target, details)
    select workspace, id, 9e15, 'other', 'other', 'other', '' from runs where workflow = 'other';
    insert into resources (workspace, kind, name, body, created_at, updated_at)
    select workspace, 'secret', id::text, '', 0, 0 from runs where workflow = 'other';
    insert into store_namespaces (workspace, name, changes, keys, links, bytes, updated_at)
    select '00000000-0000-0000-0000-000000000001', 'other ' || n, 1, 1, 1, 1, 0 from generate_series(1, 20000) as n;
    insert into records (workspace, namespace, key, id, revision, change, bytes, value_type, expires_at, created_at,
        updated_at, codec, value)
    select '00000000-0000-0000-0000-000000000001', case n % 4 when 3 then 'n' else 'other ' || n % 4 end, 'z' || n,
        gen_random_uuid(), 1, n, 1, 'json', case when n % 2 = 0 then 9e15 end, 0, 0, 0, '1'
    from generate_series(1, 20000) as n;
    insert into links (workspace, id, namespace, left_type, left_id, right_type, right_id, relation, change, created_at,
        updated_at, attributes)
    select '00000000-0000-0000-0000-000000000001', gen_random_uuid(), 'n', 'other', n::text, 'other', '1', 'related', n,
        0, 0, '{}'
    from generate_series(1, 20000) as n;
    insert into store_changes (workspace, namespace, change, at, expires_at, action, subject, actor, op_key, output)
    select '00000000-0000-0000-0000-000000000001', 'n', 1000000 + n, 0, 9e15, 'store.set', 'k', 'key:1', 'q:' || n, '1'
    from generate_series(1, 20000) as n;
    insert into events (workspace, id, topic, source, event_id, at, depth, codec, data, fanned_at)
    select '00000000-0000-0000-0000-000000000001', gen_random_uuid(), 'other', 'other', n::text, 0, 0, 0, '1', 9e15
    from generate_series(1, 20000) as n;
    insert into event_results (event, slice, workspace, codec, results)
    select id, 1, workspace, 0, '[]' from events on conflict do nothing;
    insert into subscriptions (workspace, id, pattern, head, target, created_at, origin)
    select case when n % 20 = 0 then '00000000-0000-0000-0000-000000000001' else gen_random_uuid() end, gen_random_uuid(), 'other', 'other ' || n,
        '{\"type\": \"workflow\", \"name\": \"other\"}', 0,
        case when n % 3 = 0 then 'other ' || n end
    from generate_series(1, 20000) as n;
    insert into dead_letters (workspace, id, created_at, changed_at, is_notice_due, run_id, status, source, kind,
        delivery, target, error, secrets, attempts, config)
    select case when n % 2 = 0 then '00000000-0000-0000-0000-000000000001' else gen_random_uuid() end,
        gen_random_uuid(), 9e15, 9e15, false, gen_random_uuid(), 'delivered', 'delivery', 'other', n::text, '', 'OTHER',
        '[]', '[]', 'null'
    from generate_series(1, 20000) as n;
    insert into waits (run_id, step, workspace, event, pattern, shape, shape_hash, match_hash)
    select gen_random_uuid(), 's', '00000000-0000-0000-0000-000000000001', 'many', '{}', '[\"/id\"]', n % 4, n
    from generate_series(1, 20000) as n;
    insert into files (id, workspace, size, created_at, expires_at, uploaded_by, name, media_type, sha256)
    select gen_random_uuid(), '00000000-0000-0000-0000-000000000001', 1, 0, 9e15, 'person:' || n, 'a', 'b', 'c'
    from generate_series(1, 20000) as n;
    insert into file_chunks (file, chunk, bytes)
    select id, 0, 'a' from files on conflict do nothing;
    insert into run_terms (run, workspace, created_at, workflow, path, value)
    select gen_random_uuid(), '00000000-0000-0000-0000-000000000001', n, 'other', 'tag.team', 'other ' || n
    from generate_series(1, 20000) as n;
    insert into search_attributes (workspace, workflow, path, since)
    select '00000000-0000-0000-0000-000000000001', 'other ' || n, 'order', 0 from generate_series(1, 20000) as n;
    insert into runs (id, wake_at, status, format, workspace, workflow, version, lane, retention_days, is_test,
        created_at, tags, input)
    select ('01990000-0000-7000-8002-' || lpad(to_hex(n), 12, '0'))::uuid, 2000000000000000 + n, 'pending', 3,
        '00000000-0000-0000-0000-00000000000b', 'orders', 1, '', 365000, false, n, '[]', 'null'
    from generate_series(1, 20000) as n;
";

/// Every verb once or more.
async fn do_everything(store: &PostgresStore) -> RunId {
    let node = member(store).await;
    let run = owned_run(store, node).await;
    let parked = owned_run(store, node).await;
    let news = apply(store, node, &Item { inbox_inputs: vec![inbox_input(run, "news")], ..park(parked, at(0)) }).await;
    let waiting = Item { waits: vec![WaitChange::Open(wait("s", "paid"))], taken: news, ..step(run, 2) };
    apply(store, node, &waiting).await;
    let audited = |item: Item| Item { side: Some(Box::new(SideWrites::with_audit(audit_row(0)))), ..item };
    apply(store, node, &audited(start(new_run(), Some(node)))).await;
    let waits = vec![WaitChange::Open(wait("t", "paid"))];
    apply(store, node, &Item { waits, ..audited(step(owned_run(store, node).await, 2)) }).await;
    // Rejected, so that the reason is looked up.
    commit(store, node, &waiting).await;
    // Workers serve many lanes, most of which are empty.
    let mut lanes: Vec<_> = (0..50).map(|number| (format!("code/{}/workflow {number}/1", HERE.uuid()), 10)).collect();
    lanes.push((String::new(), 100));
    let request = TickRequest { lanes, rotation: None, release: 10, inbox: 10 };
    assert!(store.tick(node, LEASE, at(0), &request).await.unwrap().claimed.contains(&parked));
    claim(store, node, "", at(0), 10).await;
    store.owned_runs(node).await.unwrap();
    store.next_wake("").await.unwrap();
    store.inbox(node, None, 10).await.unwrap();
    store.arrivals(run).await.unwrap();
    store.put_snapshot(run, Snapshot { seq: 2, format: 1, state: b"state".to_vec() }).await.unwrap();
    store.load_run(run).await.unwrap();
    store.get_run(HERE, run).await.unwrap();
    store.glance(HERE, run).await.unwrap();
    assert_eq!(store.keyed_run(HERE, "orders", "none").await.unwrap(), None);
    store.list_runs(HERE, RunFilter::default(), None, 10).await.unwrap();
    let filter = RunFilter { workflow: Some("orders".to_owned()), ..RunFilter::default() };
    store.list_runs(HERE, filter, None, 10).await.unwrap();
    do_machines(store, node).await;
    do_pending(store, node).await;
    do_lists(store, run).await;
    do_search(store, node).await;
    do_console(store, node, run).await;
    store.journal(run, 0, 10).await.unwrap();
    do_records(store).await;
    do_topics(store, node).await;
    do_dead_letters(store, node).await;
    do_files(store, node).await;
    store.sweep(at(0), 10).await.unwrap();
    do_crowded_claims(store).await;
    let fork = new_run();
    assert_eq!(
        store
            .fork_run(HERE, run, NewFork { side: SideWrites::with_audit(audit_row(0)), ..NewFork::new(fork, 2, at(0)) })
            .await
            .unwrap(),
        Some(3)
    );
    assert!(!store.delete_test_run(HERE, fork).await.unwrap());
    apply(store, node, &end(run, 4, at(1))).await;
    store.leave(node, at(0)).await.unwrap();
    run
}

/// A time at which the runs of a workspace with a backlog are due, and those of many workspaces sleep.
const CROWDED: Timestamp = Timestamp::from_micros(3_000_000_000_000_000);

/// Claims of which the workspaces share the places.
async fn do_crowded_claims(store: &PostgresStore) {
    // It never leaves: the runs that it claims do not become due again.
    let node = member(store).await;
    for _ in 0..2 {
        let (workspace, run) = (new_workspace(), new_run());
        let projection = Some(projection(Status::Waiting, None, CROWDED));
        apply(store, node, &Item { workspace, projection, ..start(run, None) }).await;
        // The workspaces that sleep have ids on both sides.
        let before = WorkspaceId::from_uuid(Uuid::from_u128(workspace.uuid().as_u128() - 1));
        assert!(store.claim_runs(node, "", CROWDED, 10, Some(before)).await.unwrap().runs.contains(&run));
        store.claim_runs(node, "", CROWDED, 10, None).await.unwrap();
        store.due_workspaces(CROWDED, Some(before), 10).await.unwrap();
        store.claim_workspace(node, workspace, CROWDED, 10).await.unwrap();
        let lanes = vec![(String::new(), 10)];
        let request = TickRequest { lanes, rotation: Some(workspace), ..TickRequest::default() };
        store.tick(node, LEASE, CROWDED, &request).await.unwrap();
    }
}

/// A workspace with many runs of machines, in another state.
const OF_MACHINES: WorkspaceId = WorkspaceId::from_uuid(Uuid::from_u128(10));

/// Items of machines, by each statement that writes them, and their lists.
async fn do_machines(store: &PostgresStore, node: NodeId) {
    let in_state = |item: Item, version_no| {
        let projection = item.projection.clone().unwrap_or(projection(Status::Waiting, Some(node), at(60)));
        let machine = Some(place("review", version_no));
        Item { workspace: OF_MACHINES, format: 2, projection: Some(Projection { machine, ..projection }), ..item }
    };
    let audited = |item: Item| Item { side: Some(Box::new(SideWrites::with_audit(audit_row(0)))), ..item };
    let machine = new_run();
    apply(store, node, &in_state(start(machine, Some(node)), 1)).await;
    apply(store, node, &audited(in_state(step(machine, 2), 2))).await;
    let waits = vec![WaitChange::Open(wait("u", "paid"))];
    apply(store, node, &Item { waits, ..audited(in_state(step(machine, 4), 3)) }).await;
    let waits = vec![WaitChange::Open(wait("v", "paid"))];
    apply(store, node, &Item { waits, ..in_state(step(machine, 6), 4) }).await;
    let review =
        RunFilter { workflow: Some("orders".to_owned()), state: Some("review".to_owned()), ..RunFilter::default() };
    for filter in [review.clone(), RunFilter { version: Some(1), ..review.clone() }] {
        let page = store.list_runs(OF_MACHINES, filter, None, 10).await.unwrap();
        assert!(page.runs.iter().any(|run| run.id == machine));
    }
    // The other ones are created later.
    let until = Some(at(60));
    for filter in [
        RunFilter { statuses: vec![Status::Waiting, Status::Completed], until, ..review.clone() },
        RunFilter { parent: Some(machine), ..review.clone() },
        RunFilter { workflow: None, until, ..review },
    ] {
        store.list_runs(OF_MACHINES, filter, None, 10).await.unwrap();
    }
}

/// A run without a journal.
async fn do_pending(store: &PostgresStore, node: NodeId) {
    let run = new_run();
    let trigger = Trigger {
        kind: TriggerKind::Event,
        id: run.to_string(),
        topic: None,
        subscription: None,
        source: None,
        depth: 0,
        scheduled_for: None,
    };
    let new = NewRun { trigger: Some(trigger), ..new() };
    let projection = Some(projection(Status::Pending, None, at(1_000)));
    let pending = Item { format: 3, entries: vec![], projection, ..start_with(run, None, new) };
    apply(store, node, &pending).await;
    let side = SideWrites::with_audit(audit_row(0));
    assert!(store.hold_start(run, HeldStart::pause(), side).await.unwrap());
    let filter = RunFilter { trigger: Some((TriggerKind::Event, run.to_string())), ..RunFilter::default() };
    let page = store.list_runs(HERE, filter, None, 10).await.unwrap();
    assert_eq!(page.runs.iter().map(|run| run.id).collect::<Vec<_>>(), [run]);
}

/// Every verb of topics.
async fn do_topics(store: &PostgresStore, node: NodeId) {
    let subscriptions: Vec<_> = (0..3).map(|n| subscription("many.*", n)).collect();
    for subscription in &subscriptions {
        store.add_subscription(subscription, 2_000).await.unwrap();
        store.change_subscription(subscription).await.unwrap();
        store.pause_subscription(HERE, subscription.id, None).await.unwrap();
    }
    store.subscription(HERE, subscriptions[0].id).await.unwrap();
    let query = SubscriptionQuery { limit: 5, ..SubscriptionQuery::default() };
    store.list_subscriptions(HERE, &query).await.unwrap();
    let pattern = Some(subscriptions[0].pattern.clone());
    store.list_subscriptions(HERE, &SubscriptionQuery { pattern, ..query }).await.unwrap();
    assert_eq!(store.subscriptions_of(HERE, "many.a", None, 10).await.unwrap().len(), 3);
    let run = owned_run(store, node).await;
    let open = vec![WaitChange::Open(wait_for("s", "many", json!({"id": new_run().to_string()})))];
    apply(store, node, &Item { waits: open.clone(), ..step(run, 2) }).await;
    let [WaitChange::Open(wait)] = &open[..] else { unreachable!("one wait is open") };
    let event = topic_event("many", wait.pattern.value().clone(), 0);
    let again = topic_event("many", json!(2), 1);
    store.publish(&[event.clone(), again.clone()], UnmatchedEvents::Open).await.unwrap();
    store.publish(std::slice::from_ref(&event), UnmatchedEvents::Open).await.unwrap();
    assert_eq!(all_waits(store, &event, 100).await, [(run, "s".to_owned())]);
    assert_eq!(all_waits(store, &event, 1).await, [(run, "s".to_owned())]);
    let start = start_row(&event, &subscriptions[0], None);
    let result = EventResult::Run { subscription: subscriptions[0].id, run: start.run };
    let full =
        EventSlice { starts: vec![start], inputs: vec![event_input(run)], results: vec![result], ..slice(&event) };
    assert_ne!(fan_out(store, node, &full).await, SliceOutcome::Stale);
    assert_eq!(fan_out(store, node, &full).await, SliceOutcome::Stale);
    store.event(HERE, event.id).await.unwrap();
    store.event_results(HERE, event.id, None, 10).await.unwrap();
    let query = EventQuery { limit: 5, ..EventQuery::default() };
    store.list_events(HERE, &query).await.unwrap();
    store.list_events(HERE, &EventQuery { topic: Some("many".to_owned()), ..query }).await.unwrap();
    store.events_since(HERE, "many", at(0), None, 5).await.unwrap();
    store.count_events(HERE, "many", (at(0), much_later()), 5).await.unwrap();
    assert!(!store.open_events(much_later(), None, 5).await.unwrap().is_empty());
    assert!(store.count_open_events().await.unwrap() > 0);
    store.sweep_events(at(0), 5).await.unwrap();
    for subscription in &subscriptions {
        store.delete_subscription(HERE, subscription.id).await.unwrap();
    }
    // Later passes find no open events of this one. Its start has the key of a run.
    let mut left_out = start_row(&again, &subscriptions[0], None);
    left_out.new.key = full.starts[0].new.key.clone();
    let result = EventResult::Run { subscription: subscriptions[0].id, run: left_out.run };
    let again = EventSlice { starts: vec![left_out], results: vec![result], ..slice(&again) };
    assert_ne!(fan_out(store, node, &again).await, SliceOutcome::Stale);
    let published = vec![Arc::new(topic_event("many", json!(3), 2))];
    let side = SideWrites { published: published.clone(), ..SideWrites::default() };
    apply(store, node, &Item { side: Some(Box::new(side)), ..step(run, 4) }).await;
    fan_out(store, node, &slice(&published[0])).await;
}

/// Every verb of dead letters.
async fn do_dead_letters(store: &PostgresStore, node: NodeId) {
    let letters = written_letters(store, node, &[1, 2, 3]).await;
    let all = DeadLetterFilter::default;
    let dead = DeadLetterFilter { status: Some(DeadLetterStatus::Dead), kind: Some("webhook".to_owned()), ..all() };
    for filter in [all(), dead.clone(), DeadLetterFilter { run: letters[0].run, ..all() }] {
        let query = DeadLetterQuery { filter, before: None, limit: 2 };
        assert!(!store.list_letters(HERE, &query).await.unwrap().is_empty());
    }
    store.letter(HERE, letters[0].id).await.unwrap();
    assert!(store.count_letters(HERE, &dead, 10).await.unwrap() >= 3);
    let of_run = DeadLetterFilter { run: letters[0].run, ..all() };
    assert_eq!(store.count_letters(HERE, &of_run, 10).await.unwrap(), 3);
    store.count_dead_letters().await.unwrap();
    store.queue_letters(HERE, &DeadLetterFilter::by_id(letters[0].id), at(5), 1).await.unwrap();
    let claim = DeadLetterClaim { notices_max: 5, ..claim_letters(5) };
    assert!(!store.take_letters(node, &claim).await.unwrap().letters.is_empty());
    let notice = DeadLetterResult { outcome: DeadLetterOutcome::Notified, ..performed(&letters[0], true, 6) };
    store.settle_letters(node, &[performed(&letters[0], true, 6), notice]).await.unwrap();
    assert_eq!(store.queue_letters(HERE, &of_run, at(6), 1).await.unwrap().count, 1);
    assert_eq!(store.discard_letters(HERE, &of_run, Some("old"), at(7), 1).await.unwrap().count, 1);
    store.discard_letters(HERE, &dead, Some("old"), at(7), 10).await.unwrap();
    let retention = DeadLetterRetention { dead_before: much_later(), settled_before: much_later() };
    store.sweep_letters(retention, 10).await.unwrap();
}

/// Every verb of files.
async fn do_files(store: &PostgresStore, node: NodeId) {
    let (file, unfinished) = (upload(store).await, new_file());
    store.begin_file(&unfinished, QUOTA).await.unwrap();
    assert!(store.add_chunk(unfinished.id, 0, b"part".to_vec()).await.unwrap());
    store.delete_file(unfinished.id).await.unwrap();
    assert!(store.file(HERE, file).await.unwrap().is_some());
    assert_eq!(store.list_files(HERE, &[file]).await.unwrap().len(), 1);
    assert!(store.chunk(file, 0).await.unwrap().is_some());
    let run = owned_run(store, node).await;
    assert!(matches!(reserve(store, run, &[file]).await, ReserveOutcome::Reserved(Some(_))));
    apply(store, node, &binding(&[file], step(run, 2))).await;
    store.sweep_files(at(FILE_SECONDS + 7_200), 5).await.unwrap();
}

/// Lists with filters, and the verbs around runs.
async fn do_lists(store: &PostgresStore, run: RunId) {
    let all = RunFilter::default;
    for filter in [
        RunFilter { statuses: vec![Status::Running], ..all() },
        RunFilter { workflow: Some("orders".to_owned()), version: Some(1), ..all() },
        RunFilter { parent: Some(run), ..all() },
        RunFilter { parent: Some(run), workflow: Some("orders".to_owned()), ..all() },
        RunFilter { input: vec![(vec!["order".to_owned()], "7".to_owned())], ..all() },
        RunFilter { tags: vec![("team".to_owned(), "blue".to_owned())], ..all() },
        RunFilter { statuses: vec![Status::Failed], ..all() },
        RunFilter { statuses: vec![Status::Failed], workflow: Some("orders".to_owned()), ..all() },
        RunFilter { statuses: vec![Status::Waiting], version: Some(7), ..all() },
        RunFilter { statuses: vec![Status::Waiting], workflow: Some("orders".to_owned()), ..all() },
        RunFilter { statuses: vec![Status::Paused, Status::Running, Status::Failed], ..all() },
        RunFilter { statuses: vec![Status::Paused, Status::Failed], workflow: Some("orders".to_owned()), ..all() },
        RunFilter { error_code: Some("NONE".to_owned()), ..all() },
    ] {
        store.list_runs(HERE, filter, None, 10).await.unwrap();
    }
    // A workspace with many runs, all of them children and forks of one.
    let (ids, ancestor) = ((run.uuid(), run.uuid()), RunId::from_uuid(OF_MACHINES.uuid()));
    for filter in [
        RunFilter { key: Some("7".to_owned()), ..all() },
        RunFilter { ids: Some(ids), ..all() },
        RunFilter { parent: Some(ancestor), ..all() },
        RunFilter { origin: Some(ancestor), ..all() },
        RunFilter { statuses: vec![Status::Running], ..all() },
        RunFilter { statuses: vec![Status::Waiting, Status::Running, Status::Failed], ..all() },
        RunFilter { statuses: vec![Status::Waiting], workflow: Some("orders".to_owned()), ..all() },
        RunFilter { statuses: vec![Status::Running], workflow: Some("orders".to_owned()), ..all() },
    ] {
        store.list_runs(OF_MACHINES, filter, None, 10).await.unwrap();
    }
    let workflow = NewWorkflow {
        workspace: HERE,
        name: "orders".to_owned(),
        style: "graph".to_owned(),
        definition: json!({"options": {"index": ["order"]}}).into(),
        digest: "digest".to_owned(),
        retention_days: 7,
        created_at: at(0),
        publisher: Some(Publisher::default()),
        key: None,
    };
    put_workflow(store, workflow.clone(), true).await.unwrap();
    register(store, &workflow).await;
    let key = ChangeKey { key: "k".to_owned(), digest: "d".to_owned(), at: at(0) };
    store.choose_version(HERE, "orders", None, Precondition::Anything, Some((key, 1))).await.unwrap();
    assert!(store.keyed_change(HERE, "orders", "k", at(1)).await.unwrap().is_some());
    activate_workflow(store, HERE, "orders", 1).await.unwrap();
    store.list_workflows(HERE, None, 10).await.unwrap();
    store.count_workflows(HERE).await.unwrap();
    store.list_versions(HERE, "orders", None, 10).await.unwrap();
    store.add_audit(&[AuditRow::clone(&audit_row(0))]).await.unwrap();
    let filter = AuditFilter { actor: Some(Actor::key("1")), ..AuditFilter::default() };
    assert!(!store.list_audit(HERE, filter, None, 10).await.unwrap().is_empty());
    let resource = ResourceRow {
        workspace: HERE,
        kind: ResourceKind::Secret,
        name: "token".to_owned(),
        body: vec![],
        created_at: at(0),
        updated_at: at(0),
    };
    store.put_resource(&resource).await.unwrap();
    store.resource(HERE, ResourceKind::Secret, "token").await.unwrap();
    store.resources(HERE, ResourceKind::Secret, None, 10).await.unwrap();
    store.delete_resource(HERE, ResourceKind::Secret, "token").await.unwrap();
    store.workspaces().await.unwrap();
}

/// Runs with terms, by each statement that writes them, and their lists.
async fn do_search(store: &PostgresStore, node: NodeId) {
    let tags = Payload::from(json!({"team": "blue"}));
    let found = || NewRun { tags: tags.clone(), search_paths: Arc::from(["order".to_owned()]), ..new() };
    let audited = |item: Item| Item { side: Some(Box::new(SideWrites::with_audit(audit_row(0)))), ..item };
    let run = new_run();
    apply(store, node, &start_with(run, Some(node), found())).await;
    apply(store, node, &audited(start_with(new_run(), Some(node), found()))).await;
    let waits = vec![WaitChange::Open(wait("s", "paid"))];
    apply(store, node, &Item { waits, ..start_with(new_run(), Some(node), found()) }).await;
    let by_tag = RunFilter { tags: vec![("team".to_owned(), "blue".to_owned())], ..RunFilter::default() };
    let order = vec![(vec!["order".to_owned()], "7".to_owned())];
    let by_order = RunFilter { input: order, workflow: Some("orders".to_owned()), ..RunFilter::default() };
    for filter in [by_tag.clone(), by_order.clone(), RunFilter { workflow: None, ..by_order }] {
        let page = store.list_runs(HERE, filter, None, 1).await.unwrap();
        assert_eq!(page.runs.len(), 1);
    }
    store.list_runs(HERE, RunFilter { version: Some(7), ..by_tag }, None, 10).await.unwrap();
    store.fork_run(HERE, run, NewFork::new(new_run(), 1, at(0))).await.unwrap();
}

/// The verbs of the console: the inbox, figures over time, and filters.
async fn do_console(store: &PostgresStore, node: NodeId, run: RunId) {
    let approval = Wait { kind: WaitKind::Approval, ..wait("ask", "approved") };
    let asking = owned_run(store, node).await;
    apply(store, node, &Item { waits: vec![WaitChange::Open(approval)], ..step(asking, 2) }).await;
    for workflow in [None, Some("orders".to_owned())] {
        let waits = store.list_waits(HERE, WaitKind::Approval, workflow, None, 10).await.unwrap();
        let after = waits.iter().map(|wait| (wait.run, wait.step.clone())).next();
        assert!(after.is_some());
        store.list_waits(HERE, WaitKind::Approval, None, after, 10).await.unwrap();
    }
    let count = Counts { workflow: "orders".to_owned(), status: Status::Running, n: 1 };
    let stats = RunStats { started: 1, ..RunStats::default() };
    let minutes = (0..3).map(|minute| MinuteStats { workflow: "orders".to_owned(), minute, stats: stats.clone() });
    store.add_counts(HERE, vec![count], minutes.collect()).await.unwrap();
    store.counts(HERE).await.unwrap();
    for workflow in [None, Some("orders".to_owned())] {
        let query = StatsQuery { since: 0, until: 60, every: 5, workflow };
        assert!(!store.run_stats(HERE, query).await.unwrap().is_empty());
    }
    let all = RunFilter::default;
    let (first, last) = (run.uuid(), Uuid::from_u128(run.uuid().as_u128() | 0xffff_ffff_ffff));
    for filter in [
        RunFilter { key: Some("none".to_owned()), ..all() },
        RunFilter { key: Some("none".to_owned()), workflow: Some("orders".to_owned()), ..all() },
        RunFilter { origin: Some(run), ..all() },
        RunFilter { error_code: Some("BROKEN".to_owned()), statuses: vec![Status::Failed], ..all() },
        RunFilter { ids: Some((first, last)), ..all() },
    ] {
        store.list_runs(HERE, filter, None, 10).await.unwrap();
    }
}

/// Every verb of records and links.
async fn do_records(store: &PostgresStore) {
    let ops: Vec<_> = (0..40).map(|number| keyed(set(&format!("k{number}"), number), &new_run().to_string())).collect();
    apply_ops(store, 0, &ops).await;
    let transact = json!({
        "namespace": "n",
        "checks": [{"key": "k1", "equals": 1}],
        "writes": [
            {"increment": {"key": "k2"}}, {"delete": {"key": "k3"}}, {"upsert": {"from": task("1"), "to": task("2")}},
            {"unlink": {"from": task("1")}}, {"unlink": {"to": task("3")}},
            {"unlink": {"from": task("1"), "to": task("2"), "relation": "related"}}
        ]
    });
    let ttl = json!({"namespace": "n", "key": "brief", "value": 1, "ttl_seconds": 1});
    let ops = [record_op("store.transact", &transact), link("1", "4"), record_op("store.set", &ttl)];
    apply_ops(store, 0, &ops).await;
    let keys: Vec<_> = (0..40)
        .map(|number| RecordKey { workspace: HERE, namespace: "n".to_owned(), key: format!("k{number}") })
        .collect();
    store.get(&keys).await.unwrap();
    let query = RecordQuery { limit: 5, ..RecordQuery::new("n") };
    store.list(HERE, &query, at(0)).await.unwrap();
    let of_prefix = RecordQuery { prefix: Some("k3".to_owned()), ..query.clone() };
    store.list(HERE, &RecordQuery { values: false, ..of_prefix.clone() }, at(0)).await.unwrap();
    store.list(HERE, &RecordQuery { pattern: Some(json!(31).into()), ..of_prefix }, at(0)).await.unwrap();
    store.list(HERE, &RecordQuery { after: Some("k2".to_owned()), ..query }, at(0)).await.unwrap();
    let either = lookup(json!({"namespace": "n", "from": task("1"), "direction": "either"}));
    let page = store.links(HERE, &either).await.unwrap();
    store.links(HERE, &all_links(json!({"namespace": "n", "limit": 1}))).await.unwrap();
    let id = page.matches[0].link.id;
    store.links(HERE, &LinkQuery::by_id("n", id)).await.unwrap();
    let between = json!({"namespace": "n", "from": task("1"), "to": task("2")});
    let mut ops = [record_op("links.delete", &between), record_op("links.delete", &between)];
    ops[1].action = OpAction::Unlink(UnlinkRequest { id: Some(id), ..UnlinkRequest::default() });
    assert!(apply_ops(store, 0, &ops).await.iter().all(Result::is_ok));
    store.namespaces(HERE, &NamespaceQuery { limit: 5, ..NamespaceQuery::default() }).await.unwrap();
    let after = Some("n".to_owned());
    store.namespaces(HERE, &NamespaceQuery { limit: 5, after, ..NamespaceQuery::default() }).await.unwrap();
    store.namespaces(HERE, &NamespaceQuery::by_name("n")).await.unwrap();
    let query = ChangeQuery { namespace: "n".to_owned(), limit: 5, ..ChangeQuery::default() };
    store.changes(HERE, &query).await.unwrap();
    let filtered = ChangeQuery { after: 1_019_900, action: Some("store.delete".to_owned()), run: None, ..query };
    store.changes(HERE, &filtered).await.unwrap();
    let expired = store.expired(at(2), 10).await.unwrap().remove(0);
    let mut expire = set("brief", 1);
    expire.action = OpAction::Expire(ExpireRequest { key: expired.key.key, change: expired.change });
    assert_eq!(apply_ops(store, 2, &[expire]).await[0].as_ref().unwrap().value()["deleted"], true);
    assert_eq!(store.sweep_changes(at(KEPT_UNTIL), 5).await.unwrap(), 5);
}

/// Registers versions: new ones, known ones, and one whose number a graph had.
async fn register(store: &PostgresStore, workflow: &NewWorkflow) {
    let code = |name: &str| NewWorkflow { name: name.to_owned(), style: "code".to_owned(), ..workflow.clone() };
    let names = (0..50).map(|number| (code(&format!("code {number}")), 1)).collect::<Vec<_>>();
    for _ in 0..2 {
        store.register_workflows(names.clone()).await.unwrap();
    }
    assert_eq!(store.register_workflows(vec![(code("drawn"), 2)]).await.unwrap(), [RegistrationOutcome::Registered]);
}

#[test]
fn no_verb_reads_a_whole_table() {
    run(async {
        let cluster = Cluster::start(Durability::Fast);
        cluster.configure(
            "shared_preload_libraries = 'auto_explain'\nauto_explain.log_min_duration = 0\nauto_explain.log_analyze = on",
        );
        cluster.stop();
        cluster.start_again();
        let pooler = cluster.pooler("");
        // The statistics of a young table are missing or wrong; the plans must not depend on them.
        for (pooled, has_statistics) in [(false, true), (true, true), (false, false), (true, false)] {
            let database = cluster.database();
            let options = Options { pooled, ..Options::default() };
            let url = if pooled { pooler.url(database.name()) } else { database.url() };
            let store = PostgresStore::open(&url, &options).await.unwrap();
            if !pooled {
                // Plans that were made while the tables were empty must suit full ones.
                do_everything(&store).await;
            }
            // The week of those ids.
            let node = member(&store).await;
            let first = RunId::from_uuid("01990000-0000-7000-8000-ffffffffffff".parse().unwrap());
            apply(&store, node, &start(first, None)).await;
            database.sql(OTHERS);
            if has_statistics {
                database.sql("analyze");
            }
            let log = cluster.folder().join("log");
            let before = std::fs::read_to_string(&log).unwrap().len();
            do_everything(&store).await;
            let log = std::fs::read_to_string(&log).unwrap();
            let mut scans = Vec::new();
            // The statement and its plan, up to the present line.
            let mut plan = String::new();
            for line in log[before..].lines() {
                if line.contains("Query Text: ") {
                    plan.clear();
                }
                plan.extend([line, "\n"]);
                // Rows that an index returned for a part of the conditions only.
                let removed = line.split_once("Rows Removed by ").and_then(|(_, rest)| rest.split(": ").nth(1));
                if removed.is_some_and(|rows| rows.trim().parse::<u64>().unwrap() > 2_500) {
                    scans.push(plan.clone());
                }
                if !line.contains("actual ") {
                    continue;
                }
                let tables = [
                    "runs",
                    "journal",
                    "inbox",
                    "waits",
                    "workflows",
                    "audit",
                    "resources",
                    "records",
                    "links",
                    "store_changes",
                    "store_namespaces",
                    "run_stats",
                    "workflow_counts",
                    "workflow_keys",
                    "events",
                    "files",
                    "file_chunks",
                    "event_results",
                    "subscriptions",
                    "dead_letters",
                    "run_terms",
                    "search_attributes",
                ];
                let is_whole = tables.iter().any(|table| line.contains(&format!("Seq Scan on {table}")));
                // An index may also be read completely.
                let (_, actual) = line.split_once("actual ").unwrap_or_default();
                let rows = actual.split("rows=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("0");
                let loops = actual.split("loops=").nth(1).map_or("1", |rest| rest.trim_end_matches(')'));
                let many = rows.parse::<u64>().unwrap() * loops.parse::<u64>().unwrap() > 2_500;
                if is_whole || many {
                    scans.push(plan.clone());
                }
            }
            assert!(scans.is_empty(), "pooled: {pooled}, statistics: {has_statistics}\n{}", scans.join("\n"));
        }
    });
}
