//! Starts: one run per idempotency key.

use std::sync::Arc;

use everstep_core::journal::Kind;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::{CommitOutcome, Gate, Item, NewRun, Projection, RunRow, RunStore, WaitChange};
use serde_json::json;

use crate::contract::fixtures::*;

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
        retention_days: 30,
        is_test: true,
        created_at: at(1),
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
    assert_eq!(store.claim_runs(node, "", Timestamp::NEVER, 10).await.unwrap(), []);
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
    assert_eq!(store.claim_runs(node, "", at(0), 10).await.unwrap(), [run]);
}
