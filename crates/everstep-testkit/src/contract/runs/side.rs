//! Side writes: rows beside a run that exist with their item or not at all.

use std::sync::Arc;

use everstep_core::actor::Actor;
use everstep_core::journal::Kind;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::{
    AuditFilter, AuditRow, CommitOutcome, Error, Gate, Item, NewFork, NewRun, SideWrites, Stores, WaitChange,
};

use crate::contract::fixtures::*;

/// An item with rows of the audit.
fn audited<const N: usize>(rows: [&Arc<AuditRow>; N], item: Item) -> Item {
    let side = SideWrites { audit: rows.map(Arc::clone).to_vec(), ..SideWrites::default() };
    Item { side: Some(Box::new(side)), ..item }
}

/// The rows of the audit, oldest first.
async fn audit(stores: &Stores) -> Vec<AuditRow> {
    let mut rows = stores.access.list_audit(HERE, AuditFilter::default(), None, 1_000).await.unwrap();
    rows.reverse();
    rows
}

async fn has_audit(stores: &Stores, expected: &[&Arc<AuditRow>]) {
    let expected: Vec<_> = expected.iter().map(|row| AuditRow::clone(row)).collect();
    assert_eq!(audit(stores).await, expected);
}

/// One item of each form that a commit treats differently, each with a row of its own.
pub async fn audit_rows_exist_with_their_item(stores: Stores) {
    let store = &*stores.runs;
    let node = member(store).await;
    let (run, waiting, parked) = (new_run(), owned_run(store, node).await, unowned_run(store, node).await);
    let rows: Vec<_> = (1..8).map(audit_row).collect();
    apply(store, node, &audited([&rows[0]], start(run, Some(node)))).await;
    apply(store, node, &audited([&rows[1]], step(run, 2))).await;
    let open = vec![WaitChange::Open(wait("s", "paid"))];
    apply(store, node, &Item { waits: open, ..audited([&rows[2]], step(waiting, 2)) }).await;
    apply(store, node, &Item { gate: Gate::Unowned, ..audited([&rows[3]], step(parked, 2)) }).await;
    apply(store, node, &audited([&rows[4], &rows[5]], end(run, 4, at(9)))).await;
    // An item without entries is gated by its run's row.
    apply(store, node, &audited([&rows[6]], park(waiting, Timestamp::NEVER))).await;
    has_audit(&stores, &rows.iter().collect::<Vec<_>>()).await;
}

pub async fn a_batch_writes_the_audit_rows_of_its_applied_items(stores: Stores) {
    let store = &*stores.runs;
    let (node, other) = (member(store).await, member(store).await);
    let (first, second) = (owned_run(store, node).await, owned_run(store, node).await);
    let foreign = owned_run(store, other).await;
    let rows: Vec<_> = (1..6).map(audit_row).collect();
    let items = [
        audited([&rows[0]], step(first, 2)),
        audited([&rows[1]], step(foreign, 2)),
        audited([&rows[2]], start(new_run(), None)),
        audited([&rows[3]], step(second, 1)),
        step(owned_run(store, node).await, 2),
        audited([&rows[4]], start(new_run(), Some(node))),
    ];
    let outcomes = store.commit(node, &items).await.unwrap();
    let expected = [applied(), CommitOutcome::Lost, applied(), CommitOutcome::Conflict, applied(), applied()];
    assert_eq!(outcomes, expected);
    has_audit(&stores, &[&rows[0], &rows[2], &rows[4]]).await;
}

pub async fn a_resent_item_writes_its_audit_rows_once(stores: Stores) {
    let store = &*stores.runs;
    let node = member(store).await;
    let run = new_run();
    let (row, later) = (audit_row(1), audit_row(2));
    let start = audited([&row], start(run, Some(node)));
    apply(store, node, &start).await;
    assert_eq!(commit(store, node, &start).await, CommitOutcome::Duplicate);
    let step = audited([&later], step(run, 2));
    apply(store, node, &step).await;
    assert_eq!(commit(store, node, &step).await, CommitOutcome::Duplicate);
    has_audit(&stores, &[&row, &later]).await;
    // An item without entries is not recognised, but its row is.
    let (run, row) = (owned_run(store, node).await, audit_row(3));
    let same =
        audited([&row], Item { projection: Some(projection(Status::Running, Some(node), at(0))), ..park(run, at(0)) });
    apply(store, node, &same).await;
    apply(store, node, &same).await;
    assert_eq!(audit(&stores).await.len(), 3);
}

pub async fn a_conflicting_item_writes_no_audit_rows(stores: Stores) {
    let store = &*stores.runs;
    let node = member(store).await;
    let (run, neighbour) = (owned_run(store, node).await, owned_run(store, node).await);
    apply(store, node, &step(run, 2)).await;
    let conflicting = audited([&audit_row(1)], step(run, 2));
    assert_eq!(commit(store, node, &conflicting).await, CommitOutcome::Conflict);
    // Its head is free, but a row behind it exists.
    let mut clashing = audited([&audit_row(2)], step(run, 4));
    clashing.entries[1].row.step = Some("s4".into());
    let row = audit_row(3);
    let outcomes = store.commit(node, &[audited([&row], step(neighbour, 2)), clashing]).await.unwrap();
    assert_eq!(outcomes, [applied(), CommitOutcome::Conflict]);
    // An inbox row that it answers is missing.
    let sent = apply(store, node, &Item { inbox_inputs: vec![inbox_input(run, "go")], ..step(neighbour, 4) }).await;
    apply(store, node, &Item { taken: sent.clone(), ..step(run, 4) }).await;
    let late = audited([&audit_row(4)], Item { taken: sent, ..step(run, 6) });
    assert_eq!(commit(store, node, &late).await, CommitOutcome::Conflict);
    has_audit(&stores, &[&row]).await;
}

pub async fn a_lost_item_writes_no_audit_rows(stores: Stores) {
    let store = &*stores.runs;
    let (node, other) = (member(store).await, member(store).await);
    let (run, parked) = (owned_run(store, other).await, unowned_run(store, node).await);
    let row = audit_row(1);
    for item in [
        step(run, 2),
        park(run, at(0)),
        step(parked, 2),
        Item { gate: Gate::Unowned, ..step(run, 2) },
        Item { entries: vec![entry(2, Kind::RunPaused, None)], ..step(new_run(), 2) },
    ] {
        assert_eq!(commit(store, node, &audited([&row], item)).await, CommitOutcome::Lost);
    }
    fence(store, node).await;
    let refused = store.commit(node, &[audited([&row], start(new_run(), Some(node)))]).await;
    assert!(matches!(refused, Err(Error::Fenced(_))), "{refused:?}");
    has_audit(&stores, &[]).await;
}

pub async fn a_start_that_exists_writes_no_audit_rows(stores: Stores) {
    let store = &*stores.runs;
    let node = member(store).await;
    let keyed = || NewRun { key: Some(("orders".to_owned(), "7".to_owned())), ..new() };
    let (run, row) = (new_run(), audit_row(1));
    apply(store, node, &audited([&row], start_with(run, Some(node), keyed()))).await;
    let again = audited([&audit_row(2)], start_with(new_run(), Some(node), keyed()));
    assert_eq!(commit(store, node, &again).await, CommitOutcome::Exists(run));
    let same = audited([&audit_row(3)], start(run, Some(node)));
    assert_eq!(commit(store, node, &same).await, CommitOutcome::Conflict);
    has_audit(&stores, &[&row]).await;
}

/// One request may start or control many runs.
pub async fn items_share_an_audit_row(stores: Stores) {
    let store = &*stores.runs;
    let (node, other) = (member(store).await, member(store).await);
    let foreign = owned_run(store, other).await;
    let row = audit_row(1);
    assert_eq!(commit(store, node, &audited([&row], step(foreign, 2))).await, CommitOutcome::Lost);
    has_audit(&stores, &[]).await;
    let items = [
        audited([&row], step(foreign, 2)),
        audited([&row], start(new_run(), None)),
        audited([&row], start(new_run(), Some(node))),
    ];
    assert_eq!(store.commit(node, &items).await.unwrap(), [CommitOutcome::Lost, applied(), applied()]);
    // A row that exists does not change.
    let changed = Arc::new(AuditRow { actor: Actor::key("2"), ..AuditRow::clone(&row) });
    apply(store, node, &audited([&changed], start(new_run(), None))).await;
    has_audit(&stores, &[&row]).await;
}

pub async fn parallel_commits_share_an_audit_row(stores: Stores) {
    let node = member(&*stores.runs).await;
    let rows = [audit_row(1), audit_row(2)];
    let commits = (0..20).map(|number| {
        let (runs, rows) = (Arc::clone(&stores.runs), rows.clone());
        tokio::spawn(async move {
            let order = if number % 2 == 0 { [&rows[0], &rows[1]] } else { [&rows[1], &rows[0]] };
            let items = order.map(|row| audited([row], start(new_run(), None)));
            runs.commit(node, &items).await.unwrap()
        })
    });
    for outcomes in futures_util::future::join_all(commits).await {
        assert_eq!(outcomes.unwrap(), [applied(), applied()]);
    }
    has_audit(&stores, &[&rows[0], &rows[1]]).await;
}

pub async fn a_fork_writes_its_audit_rows(stores: Stores) {
    let store = &*stores.runs;
    let node = member(store).await;
    let source = owned_run(store, node).await;
    let row = audit_row(1);
    let side = |row: &Arc<AuditRow>| SideWrites::with_audit(Arc::clone(row));
    let (fork, none) = (new_run(), new_run());
    assert_eq!(
        store
            .fork_run(HERE, source, NewFork { side: side(&audit_row(2)), ..NewFork::new(none, 9, at(0)) })
            .await
            .unwrap(),
        None
    );
    assert_eq!(
        store.fork_run(HERE, source, NewFork { side: side(&row), ..NewFork::new(fork, 1, at(0)) }).await.unwrap(),
        Some(1)
    );
    let taken =
        store.fork_run(HERE, source, NewFork { side: side(&audit_row(3)), ..NewFork::new(fork, 1, at(0)) }).await;
    assert!(matches!(taken, Err(Error::Refused(_))), "{taken:?}");
    has_audit(&stores, &[&row]).await;
}

pub async fn an_audit_row_with_a_nul_is_refused_with_its_item(stores: Stores) {
    let store = &*stores.runs;
    let node = member(store).await;
    let (run, fork) = (owned_run(store, node).await, new_run());
    let row = Arc::new(AuditRow { target: "a\0b".to_owned(), ..AuditRow::clone(&audit_row(1)) });
    let refused = store.commit(node, &[audited([&row], step(run, 2))]).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    let refused =
        store.fork_run(HERE, run, NewFork { side: SideWrites::with_audit(row), ..NewFork::new(fork, 1, at(0)) }).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    assert_eq!(seqs(store, run).await, [1]);
    assert!(store.load_run(fork).await.unwrap().is_none());
    has_audit(&stores, &[]).await;
}
