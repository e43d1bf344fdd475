//! Several nodes on one PostgreSQL database, in one process: the promises of each while the others join and leave.
//!
//! They reach each other by function calls. `everstep/tests/cluster` tests them as real processes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everstep_core::ids::{NodeId, RunId};
use everstep_core::journal::Kind;
use everstep_core::payload::Payload;
use everstep_core::run::{Input, Reply};
use everstep_core::status::Status;
use everstep_engine::{Engine, Error, Hint, Notification, Options, RunInput, World};
use everstep_handlers::{Ports, Registry};
use everstep_store::postgres;
use everstep_testkit::postgres::{Cluster, Durability};
use serde_json::{Value, json};

use crate::street::{LEASE, Street, join, until};
use crate::support::{self, WORKSPACE, chain, finish, publish, start};

fn waits() -> Value {
    chain(&[("wait", "wait", waiting())])
}

fn waiting() -> Value {
    json!({"config": {"event": "go"}})
}

fn go(run: RunId, key: Option<&str>) -> RunInput {
    let input = Input::Signal { event: "go".to_owned(), payload: Payload::from(json!({})) };
    RunInput { key: key.map(str::to_owned), ..RunInput::new(WORKSPACE, run, input) }
}

async fn owner(engine: &Engine, run: RunId) -> Option<NodeId> {
    engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap().owner
}

async fn count(engine: &Engine, run: RunId, kind: Kind, step: &str) -> usize {
    let journal = engine.world().runs.journal(run, 0, 1_000).await.unwrap();
    let is_it = |entry: &&everstep_store::StoredEntry| {
        entry.row.kind == kind && entry.row.step.as_ref().is_some_and(|key| key.as_str() == step)
    };
    journal.iter().filter(is_it).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_wakes_a_parked_run_within_a_second() {
    let (database, street) = (Cluster::shared().migrated_database(), Street::default());
    let (one, two) = (join(&database, &street, "one").await, join(&database, &street, "two").await);
    publish(&one, "w", &waits()).await;
    for sender in [&one, &two] {
        let run = start(&one, "w", json!({})).await;
        until("the run parks", async || owner(&one, run).await.is_none()).await;
        let began = Instant::now();
        assert_eq!(sender.route(go(run, None)).await, Ok(Reply::Accepted));
        assert_eq!(finish(sender, run).await.status, Status::Completed);
        assert!(began.elapsed() < Duration::from_secs(1), "it took {:?}", began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_to_the_wrong_node_is_acted_on_by_the_owner_within_a_second() {
    let (database, street) = (Cluster::shared().migrated_database(), Street::default());
    let (one, two) = (join(&database, &street, "one").await, join(&database, &street, "two").await);
    let nodes =
        [("wait", "wait", json!({"config": {"event": "go", "timeoutSeconds": 20}})), ("work", "noop", json!({}))];
    publish(&one, "w", &chain(&nodes)).await;
    let run = start(&one, "w", json!({})).await;
    until("the wait is open", async || count(&one, run, Kind::StepDispatched, "wait").await == 1).await;
    assert_eq!(owner(&two, run).await, Some(one.node()), "a wait of 20 s stays with its owner");
    let began = Instant::now();
    assert_eq!(two.route(go(run, Some("k"))).await, Ok(Reply::Accepted));
    assert_eq!(finish(&two, run).await.status, Status::Completed);
    assert!(began.elapsed() < Duration::from_secs(1), "it took {:?}", began.elapsed());
    for engine in [&one, &two] {
        assert_eq!(engine.route(go(run, Some("k"))).await, Ok(Reply::Repeated), "the key is in the journal");
    }
    let journal = one.world().runs.journal(run, 0, 100).await.unwrap();
    assert!(journal.iter().all(|entry| entry.writer == one.node()), "the owner alone has written");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_followers_of_a_parked_run_are_notified_by_the_node_that_continues_it() {
    let (database, street) = (Cluster::shared().migrated_database(), Street::default());
    let (one, two) = (join(&database, &street, "one").await, join(&database, &street, "two").await);
    until("one knows two", async || one.known_peer(two.node()).is_some()).await;
    publish(&one, "w", &chain(&[("a", "wait", waiting()), ("b", "wait", waiting())])).await;
    let run = start(&one, "w", json!({})).await;
    until("the run parks", async || owner(&one, run).await.is_none()).await;
    let mut watch = two.watch(run);
    let loaded = two.runs().load(run).await.unwrap();
    let _follower = two.runs().follow(WORKSPACE, loaded, 0);
    let asked = Hint::Watch { run, by: two.node() };
    until("two asks all nodes", async || street.count("one", asked) > 0).await;

    assert_eq!(one.route(go(run, None)).await, Ok(Reply::Accepted));
    let seq = one.runs().row(WORKSPACE, run).await.unwrap().seq;
    until("two is notified", async || watch.next().await == Some(Notification::Written(seq))).await;
    assert_eq!(street.count("two", Hint::Written { run, seq }), 1, "one hint for one item");

    assert_eq!(one.route(go(run, None)).await, Ok(Reply::Accepted));
    until("two is notified", async || matches!(watch.next().await, Some(Notification::Ended(_)))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_parks_a_followed_run_is_notified_when_another_continues_it() {
    let (database, street) = (Cluster::shared().migrated_database(), Street::default());
    let (one, two) = (join(&database, &street, "one").await, join(&database, &street, "two").await);
    until("one knows two", async || one.known_peer(two.node()).is_some()).await;
    let nodes = [("first", json!({"config": {"event": "go", "timeoutSeconds": 20}})), ("second", waiting())];
    publish(&one, "w", &chain(&nodes.map(|(name, config)| (name, "wait", config)))).await;
    let run = start(&one, "w", json!({})).await;
    until("the first wait is open", async || count(&one, run, Kind::StepDispatched, "first").await == 1).await;
    assert_eq!(owner(&one, run).await, Some(one.node()), "a wait of 20 s stays with its owner");
    let mut watch = one.watch(run);
    let asked = Hint::Watch { run, by: one.node() };
    assert_eq!(street.count("two", asked), 0, "the owner needs no help");

    assert_eq!(one.route(go(run, None)).await, Ok(Reply::Accepted));
    until("one asks all nodes", async || street.count("two", asked) == 1).await;
    assert_eq!(two.route(go(run, None)).await, Ok(Reply::Accepted));
    until("one is notified", async || matches!(watch.next().await, Some(Notification::Ended(_)))).await;
}

/// Both nodes send at the same time while the run parks again and again: every signal is answered once, and applied
/// once.
#[tokio::test(flavor = "multi_thread")]
async fn park_and_signal_in_any_order_lose_nothing() {
    const SIGNALS: usize = 12;
    let (database, street) = (Cluster::shared().migrated_database(), Street::default());
    let (one, two) = (join(&database, &street, "one").await, join(&database, &street, "two").await);
    let names: Vec<String> = (0..SIGNALS).map(|n| format!("wait{n}")).collect();
    let wait = |name: &'static str| (name, "wait", json!({"config": {"event": "go"}}));
    let nodes: Vec<_> = names.iter().map(|name| wait(Box::leak(name.clone().into_boxed_str()))).collect();
    publish(&one, "w", &chain(&nodes)).await;
    let mut senders = Vec::new();
    for _ in 0..4 {
        let run = start(&one, "w", json!({})).await;
        for engine in [&one, &two] {
            let engine = engine.clone();
            senders.push(tokio::spawn(async move {
                let mut accepted = 0;
                loop {
                    match engine.route(go(run, None)).await {
                        Ok(Reply::Accepted) => accepted += 1,
                        Ok(Reply::Ignored(_)) => {}
                        Ok(Reply::Refused { .. }) => return (run, accepted),
                        other => panic!("{other:?}"),
                    }
                }
            }));
        }
    }
    let mut accepted = BTreeMap::<RunId, usize>::new();
    for sender in senders {
        let sent = tokio::time::timeout(Duration::from_secs(60), sender).await.expect("no run is stranded").unwrap();
        *accepted.entry(sent.0).or_default() += sent.1;
    }
    for (run, accepted) in accepted {
        assert_eq!(accepted, SIGNALS, "each signal that was accepted has completed one wait");
        assert_eq!(finish(&one, run).await.status, Status::Completed);
        for name in &names {
            assert_eq!(count(&one, run, Kind::StepCompleted, name).await, 1);
        }
    }
}

/// A node crashes and starts again under a new id, without another node.
#[test]
fn a_restarted_node_strands_nothing() {
    let (database, street) = (Cluster::shared().migrated_database(), Street::default());
    let before = tokio::runtime::Runtime::new().unwrap();
    let (runs, old) = before.block_on(async {
        let engine = join(&database, &street, "one").await;
        publish(&engine, "w", &chain(&[("work", "noop", json!({"config": {"delayMs": 400}}))])).await;
        let mut runs = Vec::new();
        for _ in 0..20 {
            runs.push(start(&engine, "w", json!({})).await);
        }
        (runs, engine.node())
    });
    street.0.lock().unwrap().clear();
    // All loops end at once; nothing is handed over.
    drop(before);
    let began = Instant::now();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let engine = join(&database, &street, "one").await;
        assert_ne!(engine.node(), old, "an id is never used again");
        for run in runs {
            assert_eq!(finish(&engine, run).await.status, Status::Completed);
            assert_eq!(count(&engine, run, Kind::StepCompleted, "work").await, 1);
        }
    });
    assert!(began.elapsed() < 2 * LEASE + Duration::from_secs(2), "it took {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_outage_of_two_leases_fences_no_node() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::start(Durability::Fast)).await.unwrap();
    let (database, street) = (cluster.database(), Street::default());
    let (one, two) = (join(&database, &street, "one").await, join(&database, &street, "two").await);
    publish(&one, "w", &chain(&[("work", "noop", json!({"config": {"delayMs": 1_500}, "retry": {"maxAttempts": 1}}))]))
        .await;
    let mut runs = Vec::new();
    for engine in [&one, &two] {
        for _ in 0..10 {
            runs.push(start(engine, "w", json!({})).await);
        }
    }
    let ids = [one.node(), two.node()];
    tokio::task::block_in_place(|| cluster.stop());
    tokio::time::sleep(2 * LEASE).await;
    tokio::task::block_in_place(|| cluster.start_again());
    for run in runs {
        assert_eq!(finish(&one, run).await.status, Status::Completed);
        assert_eq!(count(&one, run, Kind::StepDispatched, "work").await, 1, "the outage cost an attempt");
    }
    let nodes = one.world().runs.nodes().await.unwrap();
    let alive: Vec<_> = nodes.iter().filter(|node| !node.fenced).map(|node| node.id).collect();
    assert_eq!((nodes.len(), alive), (2, ids.to_vec()));
    for engine in [one, two] {
        engine.stop(Duration::from_secs(5)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stops_hands_its_runs_over_at_once() {
    let (database, street) = (Cluster::shared().migrated_database(), Street::default());
    let (one, two) = (join(&database, &street, "one").await, join(&database, &street, "two").await);
    publish(&one, "w", &chain(&[("rest", "delay", json!({"config": {"delaySeconds": 2}}))])).await;
    let run = start(&one, "w", json!({})).await;
    one.stop(Duration::from_secs(5)).await.unwrap();
    until("the other node takes it", async || owner(&two, run).await == Some(two.node())).await;
    assert_eq!(finish(&two, run).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_room_is_taken_by_another_node() {
    let (database, street) = (Cluster::shared().migrated_database(), Street::default());
    let stores = postgres::open(&database.url(), &Default::default()).await.unwrap();
    let world = support::world(stores, Registry::standard(Ports::none()));
    let world = World { peers: Arc::new(street.clone()), ..world };
    let options = Options { node_lease: LEASE, max_active_runs: 1, address: Some("full".into()), ..Options::default() };
    let full = Engine::start(world, options).await.unwrap();
    let other = join(&database, &street, "other").await;
    publish(&full, "w", &chain(&[("rest", "delay", json!({"config": {"delaySeconds": 20}}))])).await;
    let (first, second) = (start(&full, "w", json!({})).await, start(&full, "w", json!({})).await);
    assert_eq!(owner(&full, first).await, Some(full.node()));
    until("the other node takes it", async || owner(&full, second).await == Some(other.node())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_watched_from_where_it_is_not() {
    let (database, street) = (Cluster::shared().migrated_database(), Street::default());
    let (one, two) = (join(&database, &street, "one").await, join(&database, &street, "two").await);
    publish(&one, "w", &chain(&[("work", "noop", json!({"config": {"delayMs": 300}}))])).await;
    // Also if the other node never replies.
    for is_silent in [false, true] {
        if is_silent {
            street.0.lock().unwrap().clear();
        }
        let run = start(&one, "w", json!({})).await;
        assert_eq!(finish(&two, run).await.status, Status::Completed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_node_that_cannot_be_reached_is_left_alone() {
    let (database, street) = (Cluster::shared().migrated_database(), Street::default());
    let (one, two) = (join(&database, &street, "one").await, join(&database, &street, "two").await);
    publish(&one, "w", &chain(&[("wait", "wait", json!({"config": {"event": "go", "timeoutSeconds": 20}}))])).await;
    let run = start(&one, "w", json!({})).await;
    until("the wait is open", async || count(&one, run, Kind::StepDispatched, "wait").await == 1).await;
    street.0.lock().unwrap().clear();
    let before = one.world().runs.journal(run, 0, 100).await.unwrap();
    assert_eq!(two.route(go(run, None)).await, Err(Error::Unreachable(one.node())));
    assert_eq!(one.world().runs.journal(run, 0, 100).await.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_and_its_parent_may_live_on_different_nodes() {
    let (database, street) = (Cluster::shared().migrated_database(), Street::default());
    let (one, two) = (join(&database, &street, "one").await, join(&database, &street, "two").await);
    publish(&one, "child", &waits()).await;
    let calls = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "call", "type": "workflow", "config": {"workflow": "child"}},
            {"id": "end", "type": "end"},
        ],
        "edges": [{"source": "start", "target": "call"}, {"source": "call", "target": "end"}],
    });
    publish(&one, "parent", &calls).await;
    let child_of = async |parent: RunId| {
        let mut child = None;
        until("the child is there", async || {
            let page = one.world().runs.list_runs(WORKSPACE, Default::default(), None, 10).await.unwrap();
            for run in page.runs {
                let row = one.world().runs.get_run(WORKSPACE, run.id).await.unwrap().unwrap();
                if row.parent == Some(parent) && row.status == Status::Waiting {
                    child = Some(run.id);
                }
            }
            child.is_some()
        })
        .await;
        child.unwrap()
    };
    // The node that does not hold the parent wakes the child; the end of the child loads the parent again.
    let parent = start(&one, "parent", json!({})).await;
    let child = child_of(parent).await;
    assert_eq!(two.route(go(child, None)).await, Ok(Reply::Accepted));
    assert_eq!(finish(&one, parent).await.status, Status::Completed);
    // A parent that is cancelled on another node cancels its child.
    let parent = start(&one, "parent", json!({})).await;
    let child = child_of(parent).await;
    let cancel = RunInput { input: Input::Cancel { reason: None }, ..go(parent, None) };
    assert_eq!(two.route(cancel).await, Ok(Reply::Accepted));
    assert_eq!(finish(&one, child).await.status, Status::Cancelled);
}
