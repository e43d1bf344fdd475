//! The responses to probes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everstep_core::time::Timestamp;
use everstep_engine::{Clock, NodeClock, SystemClock};
use serde_json::{Value, json};

use crate::support::{Server, until};

const TEN_DAYS: Duration = Duration::from_secs(864_000);

/// A machine whose wall clock can be set back.
#[derive(Default)]
struct Machine {
    clock: SystemClock,
    set_back_seconds: AtomicU64,
}

impl Clock for Machine {
    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn wall(&self) -> Timestamp {
        let set_back = Duration::from_secs(self.set_back_seconds.load(Ordering::SeqCst));
        Timestamp::EPOCH.plus(self.clock.wall().since(Timestamp::EPOCH) - set_back)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.clock.sleep(duration)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_full_disk_is_not_ready_and_answers_reads() {
    let server = Server::start().await;
    let wait = json!({"id": "wait", "type": "wait", "config": {"event": "go"}});
    let run = server.start_chain("w", &[wait]).await;
    server.wait_for(&run, "waiting").await;
    let pages = server.database.pages().await.unwrap();
    server.database.set_max_pages(pages + 200).await.unwrap();
    let body = server.get("/readyz").await.is(503);
    assert_eq!((&body["status"], &body["store"]["status"]), (&json!("unavailable"), &json!("full")));
    let reason = body["store"]["error"].as_str().unwrap();
    assert!(reason.contains("the disk is full") && reason.contains("are free"), "{reason}");
    server.get("/livez").await.is(200);
    server.get(&run).await.is(200);
    let event = json!({"data": 1});
    for (path, body) in [("/v1/workflows/w/runs", &json!({})), ("/v1/topics/orders", &event)] {
        let refused = server.post(path, body).await;
        assert!(refused.headers.contains_key("retry-after"), "{path}");
        refused.refuses(507, "STORE_FULL");
    }
    let many = json!({"events": [{"topic": "orders", "data": 1}, {"topic": "orders", "data": 2}]});
    assert_eq!(server.post("/v1/events", &many).await.status, 207);
    assert_eq!(server.get("/v1/events").await.is(200)["events"], json!([]), "nothing was written");
    server.put("/v1/store/books/one", &json!({"value": 1})).await.refuses(507, "STORE_FULL");
    server.post(&format!("{run}/cancel"), &Value::Null).await.is(200);
    server.wait_for(&run, "cancelled").await;
    let metrics = server.get("/metrics").await.is(200);
    let free =
        metrics.as_str().unwrap().lines().find_map(|line| line.strip_prefix("everstep_disk_free_bytes ")).unwrap();
    assert!((1.0..2_000_000.0).contains(&free.parse::<f64>().unwrap()), "{free}");
    server.database.set_max_pages(1_000_000).await.unwrap();
    assert_eq!(server.get("/readyz").await.is(200)["store"]["error"], Value::Null);
    server.post("/v1/workflows/w/runs", &json!({})).await.is(201);
}

#[tokio::test]
async fn a_clock_that_was_ten_days_ahead_is_shown() {
    let machine: Arc<Machine> = Arc::default();
    let server = Server::start_on(NodeClock::new(Arc::clone(&machine) as _)).await;
    assert_eq!(server.get("/readyz").await.is(200)["clockSkewSeconds"], Value::Null);
    machine.set_back_seconds.store(TEN_DAYS.as_secs(), Ordering::SeqCst);
    // The loop that reads the inbox compares the clocks.
    server.engine.hint_inbox();
    let skew = until("the skew", async || server.get("/readyz").await.is(200)["clockSkewSeconds"].as_f64()).await;
    assert!((-864_000.0..=-863_990.0).contains(&skew), "{skew}");
}
