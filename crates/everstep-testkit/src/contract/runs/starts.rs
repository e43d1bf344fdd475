//! Starts: one run per idempotency key, and runs that begin later.

use std::sync::Arc;

use everstep_core::actor::Actor;
use everstep_core::ids::RunId;
use everstep_core::journal::{FORMAT, Kind};
use everstep_core::payload::Payload;
use everstep_core::run::{Input, keys};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::topics::{Trigger, TriggerKind};
use everstep_store::{
    AuditFilter, AuditRow, CommitOutcome, Error, Gate, HeldStart, Item, NewRun, PendingStart, Projection, RunFilter,
    RunRow, RunStore, SideWrites, Stores, TickRequest, WaitChange,
};
use serde_json::json;

use crate::contract::fixtures::*;

/// The format of a run without a journal.
const PENDING_FORMAT: u32 = 3;

fn trigger(event: &str) -> Trigger {
    Trigger {
        kind: TriggerKind::Event,
        id: event.to_owned(),
        topic: Some("order.paid".to_owned()),
        subscription: None,
        source: Some("shop".to_owned()),
        depth: 0,
        scheduled_for: None,
    }
}

/// The row of a run without a journal, unowned and due at a time.
fn pending_start(run: RunId, wake_at: Timestamp) -> Item {
    Item {
        format: PENDING_FORMAT,
        entries: Vec::new(),
        projection: Some(projection(Status::Pending, None, wake_at)),
        ..start(run, None)
    }
}

fn keyed(scope: &str, key: &str) -> NewRun {
    NewRun { key: Some((scope.to_owned(), key.to_owned())), ..new() }
}

pub async fn a_started_run_is_as_it_was_written((store, tables): (Arc<dyn RunStore>, Tables)) {
    let node = member(&*store).await;
    let (run, parent, workspace) = (new_run(), new_run(), new_workspace());
    let new = NewRun {
        workflow: "бestellung".to_owned(),
        version: 3,
        lane: "lane/3".to_owned(),
        key: Some(("scope".to_owned(), "key".to_owned())),
        input: Payload::from(json!({ "text": "ünïcode ✓", "n": [1, null] })),
        parent: Some(parent),
        tags: Payload::from(json!(["blue"])),
        search_paths: Arc::default(),
        retention_days: 30,
        is_test: true,
        created_at: at(1),
        trigger: Some(trigger("e1")),
        start: Some(PendingStart { by: Some(Actor::person("ann")), begin_at: Some(at(5)), holds: Vec::new() }),
    };
    apply(&*store, node, &Item { workspace, ..start_with(run, Some(node), new.clone()) }).await;

    let expected = RunRow {
        id: run,
        workspace,
        workflow: new.workflow,
        version: 3,
        lane: new.lane,
        status: Status::Running,
        owner: Some(node),
        wake_at: at(1),
        format: 1,
        machine: None,
        key: new.key,
        input: new.input,
        output: None,
        error: None,
        parent: Some(parent),
        origin: None,
        tags: new.tags,
        retention_days: 30,
        is_test: true,
        created_at: at(1),
        ended_at: None,
        trigger: new.trigger,
        start: new.start,
        seq: 1,
    };
    assert_eq!(store.get_run(workspace, run).await.unwrap(), Some(expected.clone()));
    assert_eq!(tables.run_with_key(workspace, "scope", "key").await, Some(run));
    assert_eq!(row(&*store, run).await, expected);
}

pub async fn a_run_that_starts_and_ends_in_one_item_is_completed((store, tables): (Arc<dyn RunStore>, Tables)) {
    let node = member(&*store).await;
    let run = new_run();
    let output = Payload::from(json!({ "done": true }));
    let mut whole = start(run, None);
    whole.entries.push(entry(2, Kind::RunCompleted, None));
    whole.projection = Some(Projection { output: Some(output.clone()), ..ended(Status::Completed, at(1)) });
    whole.waits = vec![WaitChange::Open(wait("gone", "never"))];
    apply(&*store, node, &whole).await;

    let loaded = load(&*store, run).await;
    assert_eq!(loaded.entries.len(), 2);
    assert_eq!((loaded.run.status, loaded.run.ended_at), (Status::Completed, Some(at(1))));
    assert_eq!(loaded.run.seq, 2);
    assert_eq!(loaded.run.output, Some(output));
    assert_eq!(tables.waits_for(HERE, "never", 10).await, []);
    assert_eq!(claim(&*store, node, "", Timestamp::NEVER, 10).await, []);
}

pub async fn two_starts_with_one_key_leave_one_journal((store, tables): (Arc<dyn RunStore>, Tables)) {
    let node = member(&*store).await;
    let (first, second, third) = (new_run(), new_run(), new_run());
    let starts = [first, second].map(|run| start_with(run, Some(node), keyed("orders", "7")));
    assert_eq!(store.commit(node, &starts).await.unwrap(), [applied(), CommitOutcome::Exists(first)]);
    let late = start_with(third, Some(node), keyed("orders", "7"));
    assert_eq!(commit(&*store, node, &late).await, CommitOutcome::Exists(first));

    assert_eq!(seqs(&*store, first).await, [1]);
    for loser in [second, third] {
        assert_eq!(seqs(&*store, loser).await, [0; 0]);
        assert_eq!(store.load_run(loser).await.unwrap(), None);
    }
    assert_eq!(tables.run_with_key(HERE, "orders", "7").await, Some(first));
}

pub async fn a_run_is_found_by_its_key_and_scope(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let (orders, invoices, any) = (new_run(), new_run(), new_run());
    for (run, scope) in [(orders, "orders"), (invoices, "invoices"), (any, "")] {
        apply(&*store, node, &start_with(run, Some(node), keyed(scope, "7"))).await;
    }
    for (scope, key, expected) in [
        ("orders", "7", Some(orders)),
        ("invoices", "7", Some(invoices)),
        ("", "7", Some(any)),
        ("other", "7", None),
        ("orders", "8", None),
        ("orders", "7\0", None),
    ] {
        assert_eq!(store.keyed_run(HERE, scope, key).await.unwrap(), expected, "{scope:?} {key:?}");
    }
    assert_eq!(store.keyed_run(new_workspace(), "orders", "7").await.unwrap(), None);
}

pub async fn a_start_that_exists_writes_nothing_of_its_item((store, tables): (Arc<dyn RunStore>, Tables)) {
    let node = member(&*store).await;
    let (winner, loser) = (new_run(), new_run());
    apply(&*store, node, &start_with(winner, Some(node), keyed("orders", "7"))).await;
    let late = Item {
        waits: vec![WaitChange::Open(wait("s1", "paid"))],
        inbox_inputs: vec![inbox_input(winner, "never sent")],
        ..start_with(loser, Some(node), keyed("orders", "7"))
    };
    assert_eq!(commit(&*store, node, &late).await, CommitOutcome::Exists(winner));
    assert_eq!(inbox_of(&*store, winner).await, Vec::<String>::new());
    assert_eq!(tables.waits_for(HERE, "paid", 10).await, []);
}

pub async fn fifty_parallel_starts_with_one_key_leave_one_run(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let starts: Vec<_> = (0..50)
        .map(|_| {
            let store = store.clone();
            let run = new_run();
            let start = start_with(run, Some(node), keyed("", "once"));
            (run, tokio::spawn(async move { commit(&*store, node, &start).await }))
        })
        .collect();
    let mut started = vec![];
    let mut existing = vec![];
    for (run, outcome) in starts {
        match outcome.await.unwrap() {
            CommitOutcome::Applied(_) => started.push(run),
            CommitOutcome::Exists(winner) => existing.push(winner),
            outcome => panic!("{outcome:?} of a start"),
        }
    }
    assert_eq!(started.len(), 1);
    assert_eq!(existing, vec![started[0]; 49]);
    let page = store.list_runs(HERE, everstep_store::RunFilter::default(), None, 100).await.unwrap();
    assert_eq!(page.runs.len(), 1);
}

pub async fn one_key_in_another_workspace_or_scope_is_another_run((store, tables): (Arc<dyn RunStore>, Tables)) {
    let node = member(&*store).await;
    let here = start_with(new_run(), None, keyed("orders", "7"));
    let in_another_scope = start_with(new_run(), None, keyed("invoices", "7"));
    let without_scope = start_with(new_run(), None, keyed("", "7"));
    let elsewhere = Item { workspace: new_workspace(), ..start_with(new_run(), None, keyed("orders", "7")) };
    let starts = [here, in_another_scope, without_scope, elsewhere];
    assert_eq!(store.commit(node, &starts).await.unwrap(), vec![applied(); 4]);
    for start in starts {
        let Gate::Start(new) = &start.gate else { unreachable!("all of them are starts") };
        let (scope, key) = new.key.clone().unwrap();
        let found = tables.run_with_key(start.workspace, &scope, &key).await;
        assert_eq!(found, Some(start.run));
        let again = Item { commit: new_commit(), run: new_run(), ..start.clone() };
        assert_eq!(commit(&*store, node, &again).await, CommitOutcome::Exists(start.run));
    }
}

pub async fn starts_without_a_key_are_always_new((store, tables): (Arc<dyn RunStore>, Tables)) {
    let node = member(&*store).await;
    let starts: Vec<_> = (0..3).map(|_| start(new_run(), None)).collect();
    assert_eq!(store.commit(node, &starts).await.unwrap(), vec![applied(); 3]);
    assert_eq!(tables.run_with_key(HERE, "orders", "").await, None);
}

pub async fn a_resent_start_is_a_duplicate(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    for new in [new(), keyed("orders", "7")] {
        let run = new_run();
        let sent = start_with(run, Some(node), new);
        apply(&*store, node, &sent).await;
        assert_eq!(commit(&*store, node, &sent).await, CommitOutcome::Duplicate);
        apply(&*store, node, &step(run, 2)).await;
        assert_eq!(commit(&*store, node, &sent).await, CommitOutcome::Duplicate);
        assert_eq!(seqs(&*store, run).await, [1, 2, 3]);
    }
}

pub async fn another_start_of_the_same_run_is_a_conflict(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    for new in [new(), keyed("orders", "7")] {
        let run = new_run();
        let first = start_with(run, Some(node), new);
        apply(&*store, node, &first).await;
        let second = Item { commit: new_commit(), ..first };
        assert_eq!(commit(&*store, node, &second).await, CommitOutcome::Conflict);
        assert_eq!(seqs(&*store, run).await, [1]);
    }
}

pub async fn a_start_without_a_projection_is_pending_and_claimable(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = new_run();
    apply(&*store, node, &Item { projection: None, ..start(run, None) }).await;
    let pending = row(&*store, run).await;
    assert_eq!((pending.status, pending.owner, pending.wake_at), (Status::Pending, None, at(0)));
    assert_eq!(claim(&*store, node, "", at(0), 10).await, [run]);
}

pub async fn a_pending_start_has_no_journal_and_is_claimed_when_due(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = new_run();
    let start = pending_start(run, at(60));
    apply(&*store, node, &start).await;
    let loaded = load(&*store, run).await;
    assert!(!loaded.has_begun() && loaded.unreadable.is_none());
    assert_eq!((loaded.run.status, loaded.run.owner, loaded.run.wake_at), (Status::Pending, None, at(60)));
    assert_eq!((loaded.run.seq, loaded.run.format), (0, PENDING_FORMAT));
    assert_eq!(seqs(&*store, run).await, [0; 0]);

    assert_eq!(claim(&*store, node, "", at(59), 10).await, []);
    assert_eq!(store.next_wake("").await.unwrap(), Some(at(60)));
    assert_eq!(claim(&*store, node, "", at(60), 10).await, [run]);
    // Its owner writes its first entry.
    let begin = Item {
        entries: vec![entry(1, Kind::RunStarted, None)],
        projection: Some(projection(Status::Running, Some(node), Timestamp::NEVER)),
        ..item(run, Gate::Owned)
    };
    apply(&*store, node, &begin).await;
    let begun = load(&*store, run).await;
    assert!(begun.has_begun());
    assert_eq!((begun.run.status, begun.run.seq, begun.run.format), (Status::Running, 1, PENDING_FORMAT));
}

pub async fn a_resent_pending_start_is_a_duplicate(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    for new in [new(), keyed("orders", "7")] {
        let sent = Item { gate: Gate::Start(Box::new(new)), ..pending_start(new_run(), at(60)) };
        apply(&*store, node, &sent).await;
        assert_eq!(commit(&*store, node, &sent).await, CommitOutcome::Duplicate);
    }
    let late = Item { gate: Gate::Start(Box::new(keyed("orders", "7"))), ..pending_start(new_run(), at(60)) };
    assert!(matches!(commit(&*store, node, &late).await, CommitOutcome::Exists(_)));
}

pub async fn a_pending_start_of_a_fenced_node_is_nobodys(store: Arc<dyn RunStore>) {
    let (gone, node) = (member(&*store).await, member(&*store).await);
    let (before, after) = (new_run(), new_run());
    let owned =
        |run| Item { projection: Some(projection(Status::Pending, Some(gone), at(0))), ..pending_start(run, at(0)) };
    // Its owner is fenced before it begins: the run is released, and another node claims it.
    apply(&*store, gone, &owned(before)).await;
    fence(&*store, gone).await;
    assert_eq!(release_runs(&*store, at(1), 10).await, 1);
    let released = load(&*store, before).await;
    assert!(!released.has_begun());
    assert_eq!((released.run.status, released.run.owner, released.run.wake_at), (Status::Pending, None, at(1)));
    assert_eq!(claim(&*store, node, "", at(1), 10).await, [before]);
    // A fenced node inserts none.
    assert!(matches!(store.commit(gone, &[owned(after)]).await, Err(Error::Fenced(_))));
    assert_eq!(store.load_run(after).await.unwrap(), None);
}

pub async fn an_older_release_never_claims_a_pending_start(store: Arc<dyn RunStore>) {
    // This build is the older one: it does not know the format of the row.
    let node = member(&*store).await;
    let run = new_run();
    apply(&*store, node, &Item { format: FORMAT + 1, ..pending_start(run, at(0)) }).await;
    assert_eq!(claim(&*store, node, "", at(1), 10).await, []);
    let request = TickRequest { lanes: vec![(String::new(), 10)], ..TickRequest::default() };
    assert_eq!(store.tick(node, LEASE, at(1), &request).await.unwrap().claimed, []);
    assert_eq!(store.next_wake("").await.unwrap(), None);
}

pub async fn a_pending_start_is_held_only_while_no_node_has_begun_it(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = new_run();
    apply(&*store, node, &pending_start(run, at(60))).await;
    let hold = |hold| store.hold_start(run, hold, SideWrites::default());
    assert!(!hold(HeldStart::resume(at(60))).await.unwrap(), "it is not paused");
    assert!(hold(HeldStart::pause()).await.unwrap());
    assert!(!hold(HeldStart::pause()).await.unwrap(), "it is paused");
    assert_eq!(claim(&*store, node, "", at(1_000), 10).await, []);
    assert_eq!(row(&*store, run).await.start, None);
    let mut start = PendingStart { begin_at: Some(at(70)), ..PendingStart::default() };
    keys::remember_hold(&mut start.holds, &Input::Resume, "first");
    assert!(hold(HeldStart { start: Some(start.clone()), ..HeldStart::resume(at(70)) }).await.unwrap());
    assert_eq!(row(&*store, run).await.wake_at, at(70));
    assert_eq!(row(&*store, run).await.start, Some(start), "the keys exist with the change");
    assert_eq!(claim(&*store, node, "", at(70), 10).await, [run]);
    assert!(!hold(HeldStart::pause()).await.unwrap(), "a node owns it");
    let parked = Item {
        entries: vec![entry(1, Kind::RunStarted, None)],
        projection: Some(projection(Status::Pending, None, at(80))),
        ..item(run, Gate::Owned)
    };
    apply(&*store, node, &parked).await;
    assert!(!hold(HeldStart::pause()).await.unwrap(), "it has begun");
    assert_eq!(row(&*store, run).await.status, Status::Pending);
    assert!(
        !store.hold_start(new_run(), HeldStart::pause(), SideWrites::default()).await.unwrap(),
        "there is no such run"
    );
}

pub async fn a_hold_has_its_audit_row_with_it(stores: Stores) {
    let store = &stores.runs;
    let node = member(&**store).await;
    let run = new_run();
    apply(&**store, node, &pending_start(run, at(60))).await;
    let (written, refused) = (audit_row(1), audit_row(2));
    let side = |row| SideWrites::with_audit(Arc::clone(row));
    assert!(store.hold_start(run, HeldStart::pause(), side(&written)).await.unwrap());
    assert!(!store.hold_start(run, HeldStart::pause(), side(&refused)).await.unwrap());
    let audit = stores.access.list_audit(HERE, AuditFilter::default(), None, 10).await.unwrap();
    assert_eq!(audit, [AuditRow::clone(&written)]);
}

pub async fn the_inbox_of_a_pending_start_waits_for_its_owner(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = new_run();
    apply(&*store, node, &pending_start(run, at(60))).await;
    // A visit writes the row without changing the run.
    let kept = Item { inbox_inputs: vec![inbox_input(run, "kept")], ..item(run, Gate::Unowned) };
    apply(&*store, node, &kept).await;
    assert_eq!(row(&*store, run).await.wake_at, at(60));
    let request = TickRequest { inbox: 10, ..TickRequest::default() };
    for status in [Status::Pending, Status::Paused] {
        if status == Status::Paused {
            assert!(store.hold_start(run, HeldStart::pause(), SideWrites::default()).await.unwrap());
        }
        assert_eq!(store.inbox(node, None, 10).await.unwrap(), []);
        assert_eq!(store.tick(node, LEASE, at(0), &request).await.unwrap().arrivals, []);
    }
    assert!(store.hold_start(run, HeldStart::resume(at(60)), SideWrites::default()).await.unwrap());
    assert_eq!(claim(&*store, node, "", at(60), 10).await, [run]);
    assert_eq!(inbox_of(&*store, run).await, ["kept"]);
    assert_eq!(store.inbox(node, None, 10).await.unwrap().len(), 1);
}

pub async fn runs_are_found_by_their_trigger(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let (first, second, other, plain) = (new_run(), new_run(), new_run(), new_run());
    for (run, event) in [(first, Some("e1")), (second, Some("e1")), (other, Some("e2")), (plain, None)] {
        let new = NewRun { trigger: event.map(trigger), ..new() };
        apply(&*store, node, &Item { gate: Gate::Start(Box::new(new)), ..pending_start(run, at(60)) }).await;
    }
    let found = async |kind, id: &str| {
        let filter = RunFilter { trigger: Some((kind, id.to_owned())), ..RunFilter::default() };
        let page = store.list_runs(HERE, filter, None, 10).await.unwrap();
        assert_eq!(page.next, None);
        let mut runs: Vec<_> = page.runs.iter().map(|run| run.id).collect();
        assert!(page.runs.iter().all(|run| run.trigger.as_ref().is_some_and(|trigger| trigger.id == id)));
        runs.sort();
        runs
    };
    assert_eq!(found(TriggerKind::Event, "e1").await, [first, second]);
    assert_eq!(found(TriggerKind::Event, "e2").await, [other]);
    assert_eq!(found(TriggerKind::Schedule, "e1").await, Vec::<RunId>::new());
    assert_eq!(found(TriggerKind::Event, "e3").await, Vec::<RunId>::new());
    let filter = RunFilter { trigger: Some((TriggerKind::Event, "e1".to_owned())), ..RunFilter::default() };
    assert_eq!(store.list_runs(new_workspace(), filter, None, 10).await.unwrap().runs, []);
}
