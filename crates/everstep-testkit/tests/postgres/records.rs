//! Records and links of several nodes: each op is applied once, and no node blocks another one.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everstep_core::records::Op;
use everstep_store::postgres::{Options, PostgresStore};
use everstep_store::{OpOutcome, RecordStore};
use everstep_testkit::contract::{fixtures::*, run};
use everstep_testkit::postgres::{Cluster, TestDatabase};
use serde_json::json;
use tokio::task::JoinSet;

use super::{open, session, wait_for_a_waiter};

/// Three nodes send the same ops in different batches and orders.
async fn apply_the_same_ops(stores: [Arc<PostgresStore>; 3]) {
    const OPS: usize = 1_000;
    let ops: Vec<Op> = (0..OPS).map(|number| keyed(increment("k"), &number.to_string())).collect();
    let mut nodes = JoinSet::new();
    for (node, store) in stores.iter().cloned().enumerate() {
        let mut ops = ops.clone();
        ops.rotate_left(node * OPS / 3);
        nodes.spawn(async move {
            let (mut outputs, mut redone) = (Vec::new(), 0);
            for batch in ops.chunks(50 + node * 13) {
                let applied = store.apply(batch, at(0), at(KEPT_UNTIL)).await.unwrap();
                redone += applied.redone;
                let values =
                    applied.outcomes.into_iter().map(|outcome| outcome.unwrap().value()["value"].as_u64().unwrap());
                outputs.extend(batch.iter().map(|op| op.key.to_string()).zip(values));
            }
            outputs.sort();
            (outputs, redone)
        });
    }
    let outputs = nodes.join_all().await;
    assert!(outputs.iter().all(|(node, _)| *node == outputs[0].0), "an op has one output, whichever node asks");
    assert!(outputs.iter().map(|(_, redone)| redone).sum::<usize>() > 0, "the nodes were in each other's way");
    let mut values: Vec<_> = outputs[0].0.iter().map(|(_, value)| *value).collect();
    values.sort_unstable();
    assert_eq!(values, (1..=OPS as u64).collect::<Vec<_>>());
    let store = &*stores[0];
    assert_eq!(value(store, "k").await, Some(json!(OPS)));
    assert_eq!((counts(store).await.changes, all_changes(store, HERE, "n").await.len()), (OPS as u64, OPS));
}

async fn three(url: &str, pooled: bool) -> [Arc<PostgresStore>; 3] {
    let options = Options { pooled, ..Options::default() };
    let mut stores = Vec::new();
    for _ in 0..3 {
        stores.push(Arc::new(PostgresStore::open(url, &options).await.unwrap()));
    }
    stores.try_into().unwrap_or_else(|_| unreachable!("three were opened"))
}

#[test]
fn two_nodes_with_the_same_ops_apply_each_once() {
    run(async {
        let database = Cluster::shared().database();
        apply_the_same_ops(three(&database.url(), false).await).await;
    });
}

#[test]
fn two_nodes_behind_a_pooler_apply_each_op_once() {
    run(async {
        let database = Cluster::shared().database();
        let pooler = Cluster::shared().pooler("");
        apply_the_same_ops(three(&pooler.url(database.name()), true).await).await;
    });
}

/// The environment variable by which this test program runs as a node that applies ops until it is killed.
const NODE_URL: &str = "EVERSTEP_TEST_RECORDS_NODE_URL";

/// Not a test of its own: the process that `a_stopped_client_blocks_no_namespace` stops.
#[test]
fn a_node_that_applies_ops_for_another_test() {
    let Ok(url) = std::env::var(NODE_URL) else { return };
    run(async {
        let store = PostgresStore::open(&url, &Options::default()).await.unwrap();
        for batch in 0_u64.. {
            apply_ops(&store, 0, &increments("theirs", batch, 20)).await;
        }
    });
}

/// Increments of a record, with keys that differ from those of another process.
fn increments(record: &str, batch: u64, ops: u64) -> Vec<Op> {
    (0..ops).map(|number| keyed(increment(record), &format!("{record}/{batch}/{number}"))).collect()
}

struct Node(Child);

impl Node {
    fn start(database: &TestDatabase<'_>) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "postgres::records::a_node_that_applies_ops_for_another_test"])
            .env(NODE_URL, database.url())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap();
        assert!(status.success(), "the node has ended");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A node is stopped at any moment, also between its read and its write. Another node writes to the same namespace
/// without waiting for it, which it could not if the stopped node held a lock.
#[test]
fn a_stopped_client_blocks_no_namespace() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        applied_op(&store, &set("ours", 1)).await;
        let node = Node::start(&database);
        while value(&store, "theirs").await.is_none() {
            tokio::task::yield_now().await;
        }
        for round in 0..60_u32 {
            // At another moment of the node's round each time.
            let moment = Instant::now() + Duration::from_micros(u64::from(round * 173 % 4_000));
            while Instant::now() < moment {
                tokio::task::yield_now().await;
            }
            node.signal("-STOP");
            let began = Instant::now();
            let ops = increments("ours", round.into(), 5);
            assert!(apply_ops(&store, 0, &ops).await.iter().all(Result::is_ok));
            assert!(began.elapsed() < Duration::from_secs(5), "round {round} took {:?}", began.elapsed());
            node.signal("-CONT");
        }
        drop(node);
        assert_eq!(value(&store, "ours").await, Some(json!(301)));
        let changes = all_changes(&store, HERE, "n").await;
        let theirs = value(&store, "theirs").await.unwrap().as_u64().unwrap();
        assert_eq!(changes.len() as u64, 301 + theirs);
    });
}

/// A batch finds a gate closed and others open: it writes to the open ones and repeats the rest at once.
#[test]
fn a_closed_gate_repeats_only_the_ops_of_its_namespace() {
    run(async {
        let database = Cluster::shared().database();
        let store = Arc::new(open(&database).await);
        let in_namespace = |namespace: &str| Op { namespace: namespace.to_owned(), ..increment("k") };
        for namespace in ["a", "b"] {
            applied_op(&*store, &in_namespace(namespace)).await;
        }
        // Another node has locked one namespace, and commits a change to it after the batch was read.
        let other = session(&database).await;
        other.batch_execute("begin; update store_namespaces set changes = changes + 1 where name = 'b'").await.unwrap();
        let applying = {
            let store = Arc::clone(&store);
            let ops = ["a", "b", "c"].map(in_namespace);
            tokio::spawn(async move { store.apply(&ops, at(0), at(KEPT_UNTIL)).await.unwrap() })
        };
        wait_for_a_waiter(&session(&database).await).await;
        other.batch_execute("commit").await.unwrap();
        let applied = applying.await.unwrap();
        assert_eq!(applied.redone, 1);
        let changes: Vec<_> =
            applied.outcomes.iter().map(|outcome| outcome.as_ref().unwrap().value()["change"].clone()).collect();
        assert_eq!(changes, [json!(2), json!(3), json!(1)]);
    });
}

/// A batch that is tried once leaves the ops of a closed gate without an answer, and they are not applied.
#[test]
fn a_closed_gate_leaves_the_ops_of_its_namespace_without_an_answer() {
    run(async {
        let database = Cluster::shared().database();
        let store = Arc::new(open(&database).await);
        let in_namespace = |namespace: &str| Op { namespace: namespace.to_owned(), ..increment("k") };
        for namespace in ["a", "b"] {
            applied_op(&*store, &in_namespace(namespace)).await;
        }
        let ops = ["a", "b", "c"].map(in_namespace);
        let other = session(&database).await;
        other.batch_execute("begin; update store_namespaces set changes = changes + 1 where name = 'b'").await.unwrap();
        let trying = {
            let (store, ops) = (Arc::clone(&store), ops.clone());
            tokio::spawn(async move { store.try_apply(&ops, at(0), at(KEPT_UNTIL)).await.unwrap() })
        };
        wait_for_a_waiter(&session(&database).await).await;
        other.batch_execute("commit").await.unwrap();
        let tried = trying.await.unwrap();
        let changes = |outcomes: Vec<Option<OpOutcome>>| -> Vec<_> {
            outcomes.into_iter().map(|outcome| Some(outcome?.unwrap().value()["change"].clone())).collect()
        };
        assert_eq!((tried.redone, changes(tried.outcomes)), (1, vec![Some(json!(2)), None, Some(json!(1))]));
        // All of them may be sent again.
        let again = store.try_apply(&ops, at(0), at(KEPT_UNTIL)).await.unwrap();
        assert_eq!((again.redone, changes(again.outcomes)), (0, [2, 3, 1].map(|change| Some(json!(change))).to_vec()));
    });
}

/// The write of a batch waits for another transaction with the key of one of its ops, and returns its output.
#[test]
fn a_key_that_another_node_takes_repeats_the_batch() {
    run(async {
        let database = Cluster::shared().database();
        let store = Arc::new(open(&database).await);
        let op = keyed(increment("k"), "once");
        let other = session(&database).await;
        other.batch_execute("begin").await.unwrap();
        let taken = format!(
            "insert into store_changes (workspace, namespace, change, at, expires_at, action, subject, actor, op_key, digest, output)
            values ('{}', 'elsewhere', 1, 0, 9e15, 'store.increment', 'k', 'key:1', '{}', decode('{}', 'hex'), '{{\"value\":7}}')",
            HERE.uuid(),
            op.key,
            op.digest.unwrap().iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
        );
        other.batch_execute(&taken).await.unwrap();
        let applying = {
            let (store, ops) = (Arc::clone(&store), [set("other", 1), op]);
            tokio::spawn(async move { store.apply(&ops, at(0), at(KEPT_UNTIL)).await.unwrap() })
        };
        wait_for_a_waiter(&session(&database).await).await;
        other.batch_execute("commit").await.unwrap();
        let applied = applying.await.unwrap();
        assert_eq!(applied.redone, 2);
        assert_eq!(applied.outcomes[1].as_ref().unwrap().json(), r#"{"value":7}"#);
        assert_eq!((value(&*store, "other").await, value(&*store, "k").await), (Some(json!(1)), None));
    });
}
