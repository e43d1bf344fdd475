//! A data store that is busy or full: requests are rejected, and ops of runs wait.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::records::{Author, IncrementRequest, OpAction, SetRequest};
use everstep_core::time::Timestamp;
use everstep_engine::{Engine, Error, NewOp, NodeClock};
use everstep_store::OpOutcome;
use everstep_testkit::held::{HeldClock, StoreGate};
use futures_util::future::{self, Either};
use serde_json::{Value, json};

use crate::support::{Server, Setup, WrapRecords, answer_after, until};

const PATH: &str = "/v1/store/books/one";
/// Ops that wait for the record writer before their callers wait for a place.
const PLACES: usize = 8_192;
/// How long a request waits for its write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a request waits for a place.
const REQUEST_PATIENCE: Duration = Duration::from_secs(5);

fn of_run(action: OpAction) -> NewOp {
    let author = Author { run: Some(RunId::new(Timestamp::EPOCH, 7)), step: Some("s".into()), actor: "run".to_owned() };
    NewOp { workspace: WorkspaceId::DEFAULT, namespace: "books".to_owned(), key: None, author, action }
}

fn increment() -> NewOp {
    let (by, initial) = (1.into(), 0.into());
    of_run(OpAction::Increment(IncrementRequest { key: "count".to_owned(), by, initial, ttl_seconds: None }))
}

type Applied = tokio::task::JoinHandle<std::result::Result<OpOutcome, Error>>;

fn apply(engine: &Engine, op: NewOp) -> Applied {
    let engine = engine.clone();
    tokio::spawn(async move { engine.records().apply(op).await })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_rejected_if_it_finds_no_place_within_five_seconds() {
    let gate: Arc<StoreGate> = Arc::default();
    let records = {
        let gate = Arc::clone(&gate);
        Some(Box::new(move |store| gate.hold(store)) as WrapRecords)
    };
    let held = HeldClock::new(REQUEST_PATIENCE);
    let clock = NodeClock::new(Arc::clone(&held) as _);
    let server = Server::launch(Setup { clock, records, ..Setup::default() }).await;

    // One op is with the store, and the others take all places.
    let mut ops = vec![apply(&server.engine, increment())];
    until("a batch", async || (gate.batches() == 1).then_some(())).await;
    ops.extend((0..PLACES).map(|_| apply(&server.engine, increment())));
    until("a full queue", async || (server.engine.records().waiting() == PLACES).then_some(())).await;
    let late = apply(&server.engine, increment());

    let body = json!({"value": 1});
    let answered = async {
        let answer = server.put(PATH, &body).await;
        assert_eq!(answer.headers["retry-after"], "1");
        answer.refuses(503, "UNAVAILABLE")
    };
    let moved = async {
        until("a request that waits", async || (held.sleepers() > 0).then_some(())).await;
        // Reads do not wait for writes.
        server.get(PATH).await.refuses(404, "NOT_FOUND");
        // The engine has a sleep of the same length, which may be held as well, or alone at first.
        for _ in 0..3_000 {
            held.wake();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let problem = match future::select(pin!(answered), pin!(moved)).await {
        Either::Left((problem, _)) => problem,
        Either::Right(_) => panic!("the request waits although its time has passed"),
    };
    assert!(problem["detail"].as_str().unwrap().contains("busy"), "{problem}");
    assert!(!late.is_finished(), "an op of a run waits as long as necessary");

    gate.open();
    for op in ops.into_iter().chain([late]) {
        op.await.unwrap().unwrap().unwrap();
    }
    server.get(PATH).await.refuses(404, "NOT_FOUND");
    server.put(PATH, &body).await.is(201);
    let counted = server.get("/v1/store/books/count").await.is(200);
    assert_eq!(counted["value"], PLACES + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_reply_names_the_component_that_is_slow() {
    let gate: Arc<StoreGate> = Arc::default();
    let records = {
        let gate = Arc::clone(&gate);
        Some(Box::new(move |store| gate.hold(store)) as WrapRecords)
    };
    let held = HeldClock::new(WRITE_TIMEOUT);
    let clock = NodeClock::new(Arc::clone(&held) as _);
    let server = Server::launch(Setup { clock, records, ..Setup::default() }).await;
    let body = json!({"value": 1});
    let request = server.put(PATH, &body);
    let problem = answer_after(&held, request).await.refuses(504, "OUTCOME_UNKNOWN");
    // The database and the shards answer.
    let expected = "the record writer of this node has not replied within 30 s; the request may still be written";
    assert_eq!(problem["detail"], expected);
    gate.open();
    // The record writer works again. It may have dropped the op of the caller that has gone.
    let status = server.put(PATH, &json!({"value": 2})).await.status;
    assert!([200, 201].contains(&status), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_requests_are_rejected_while_an_op_of_a_run_waits() {
    let server = Server::start().await;
    server.put(PATH, &json!({"value": 0})).await.is(201);
    server.database.set_max_pages(server.database.pages().await.unwrap()).await.unwrap();
    // Noise, which compression does not shorten.
    let noise: String = (0..12_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let waiting = apply(&server.engine, of_run(OpAction::Set(SetRequest::new("run", Value::from(noise.as_str())))));
    for _ in 0..3 {
        let refused = server.put(PATH, &json!({"value": noise})).await;
        assert!(refused.headers.contains_key("retry-after"));
        refused.refuses(507, "STORE_FULL");
    }
    assert!(!waiting.is_finished());
    server.database.set_max_pages(1_000_000).await.unwrap();
    waiting.await.unwrap().unwrap().unwrap();
    assert_eq!(server.get("/v1/store/books/run").await.is(200)["value"], *noise);
    assert_eq!(server.get(PATH).await.is(200)["value"], 0);
}
