//! Several nodes at the same time: nothing is done twice, and no node waits without a limit.

use std::collections::BTreeMap;
use std::sync::Arc;

use everstep_core::ids::{NodeId, RunId};
use everstep_core::journal::Kind;
use everstep_core::status::Status;
use everstep_store::{CommitOutcome, Gate, Item, NewRun, RunFilter, RunStore};
use everstep_testkit::contract::{fixtures::*, run};
use everstep_testkit::postgres::Cluster;
use tokio::task::JoinSet;

use super::open;

#[test]
fn fifty_starts_with_one_key_from_two_nodes_leave_one_journal() {
    run(async {
        let database = Cluster::shared().database();
        let stores = [Arc::new(open(&database).await), Arc::new(open(&database).await)];
        let nodes = [member(&*stores[0]).await, member(&*stores[1]).await];
        let mut starts = JoinSet::new();
        for number in 0..50 {
            let (store, node, run) = (stores[number % 2].clone(), nodes[number % 2], new_run());
            let keyed = NewRun { key: Some(("orders".to_owned(), "7".to_owned())), ..new() };
            starts.spawn(async move { (run, commit(&*store, node, &start_with(run, Some(node), keyed)).await) });
        }
        let outcomes: BTreeMap<RunId, CommitOutcome> = starts.join_all().await.into_iter().collect();
        let started: Vec<_> = outcomes.iter().filter(|(_, outcome)| **outcome == applied()).collect();
        let [(winner, _)] = started[..] else { panic!("{} runs were started", started.len()) };
        for (run, outcome) in outcomes.iter().filter(|(run, _)| *run != winner) {
            assert_eq!(*outcome, CommitOutcome::Exists(*winner));
            assert_eq!(seqs(&*stores[0], *run).await, [0; 0]);
        }
        assert_eq!(seqs(&*stores[0], *winner).await, [1]);
        assert_eq!(database.sql("select count(*) from journal"), ["1"]);
    });
}

/// Batches of the same runs in different orders, with inbox inputs across: each run is decided once per round.
#[test]
fn batches_of_several_nodes_for_the_same_runs_never_deadlock() {
    const RUNS: usize = 24;
    const ROUNDS: u64 = 6;
    run(async {
        let database = Cluster::shared().database();
        let mut nodes = Vec::new();
        for _ in 0..4 {
            let store = Arc::new(open(&database).await);
            nodes.push((member(&*store).await, store));
        }
        let (node, store) = nodes[0].clone();
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            runs.push(unowned_run(&*store, node).await);
        }
        for round in 0..ROUNDS {
            let mut batches = JoinSet::new();
            for (turn, (node, store)) in nodes.iter().cloned().enumerate() {
                let mut items: Vec<_> = (0..RUNS).map(|place| decision(runs[place], node, 2 + round, &runs)).collect();
                items.rotate_left(turn * RUNS / 4);
                if turn % 2 == 1 {
                    items.reverse();
                }
                let run = |item: &Item| item.run;
                batches.spawn(async move {
                    let outcomes = store.commit(node, &items).await.unwrap();
                    items.iter().map(run).zip(outcomes).collect::<Vec<_>>()
                });
            }
            let mut decided: BTreeMap<RunId, usize> = BTreeMap::new();
            for (run, outcome) in batches.join_all().await.into_iter().flatten() {
                match outcome {
                    CommitOutcome::Applied(_) => *decided.entry(run).or_default() += 1,
                    outcome => assert_eq!(outcome, CommitOutcome::Conflict),
                }
            }
            assert_eq!(decided.len(), RUNS);
            assert!(decided.values().all(|times| *times == 1), "round {round}: {decided:?}");
        }
        for run in &runs {
            assert_eq!(seqs(&*store, *run).await.len() as u64, 1 + ROUNDS);
            assert_eq!(load(&*store, *run).await.inbox.len() as u64, ROUNDS);
        }
    });
}

/// Appends an entry to a run that stays unowned, and sends an inbox input to the next run.
fn decision(run: RunId, node: NodeId, seq: u64, runs: &[RunId]) -> Item {
    let place = runs.iter().position(|known| *known == run).unwrap();
    let next = runs[(place + 1) % runs.len()];
    let step = format!("{node}");
    Item {
        entries: vec![entry(seq, Kind::TimerFired, Some(&step))],
        projection: Some(projection(Status::Waiting, None, at(0))),
        inbox_inputs: vec![inbox_input(next, "news")],
        ..item(run, Gate::Unowned)
    }
}

#[test]
fn two_committers_of_one_node_do_not_wait_for_each_other() {
    run(async {
        let database = Cluster::shared().database();
        let store = Arc::new(open(&database).await);
        let node = member(&*store).await;
        let (first, second) = (unowned_run(&*store, node).await, owned_run(&*store, node).await);
        let other = super::session(&database).await;
        other.batch_execute("begin").await.unwrap();
        other.query("select from runs where id = $1 for update", &[&first.uuid()]).await.unwrap();
        let waiting = {
            let store = store.clone();
            let item = Item { gate: Gate::Unowned, ..step(first, 2) };
            tokio::spawn(async move { commit(&*store, node, &item).await })
        };
        super::wait_for_a_waiter(&super::session(&database).await).await;
        // The other batch ends in the interval.
        apply(&*store, node, &step(second, 2)).await;
        assert!(!waiting.is_finished());
        other.batch_execute("rollback").await.unwrap();
        assert_eq!(waiting.await.unwrap(), applied());
    });
}

#[test]
fn several_clashes_in_one_batch_are_distinguished() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let node = member(&store).await;
        let mut items = Vec::new();
        for number in 0..12 {
            let run = owned_run(&store, node).await;
            apply(&store, node, &step(run, 2)).await;
            let mut next = step(run, 4);
            if number % 3 == 0 {
                // Its head is valid; the next entry already exists.
                next.entries[1].row.step = Some("s4".into());
            }
            items.push(next);
        }
        items.push(start(new_run(), Some(node)));
        let outcomes = store.commit(node, &items).await.unwrap();
        for (number, outcome) in outcomes.iter().enumerate() {
            let expected = if number % 3 == 0 && number < 12 { CommitOutcome::Conflict } else { applied() };
            assert_eq!(*outcome, expected, "item {number}");
        }
        let page = store.list_runs(HERE, RunFilter::default(), None, 100).await.unwrap();
        assert_eq!(page.runs.len(), 13);
    });
}
