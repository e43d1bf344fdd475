//! The responses to probes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everstep_core::time::Timestamp;
use everstep_engine::{Clock, NodeClock, SystemClock};
use serde_json::Value;

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
