//! A clock that waits for a test.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everstep_core::time::Timestamp;
use everstep_engine::{Clock, SystemClock};
use tokio::sync::oneshot;

/// The machine's clock, on which the sleeps of one length end when the test ends them.
pub struct HeldClock {
    clock: SystemClock,
    length: Duration,
    sleepers: Mutex<Vec<oneshot::Sender<()>>>,
}

impl HeldClock {
    /// Holds the sleeps of exactly this length.
    pub fn new(length: Duration) -> Arc<Self> {
        Arc::new(Self { clock: SystemClock::default(), length, sleepers: Mutex::default() })
    }

    /// The number of held sleeps.
    pub fn sleepers(&self) -> usize {
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        sleepers.retain(|sleeper| !sleeper.is_closed());
        sleepers.len()
    }

    /// Ends all held sleeps.
    pub fn wake(&self) {
        for sleeper in self.sleepers.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // The sleep may have been given up.
            let _ = sleeper.send(());
        }
    }
}

impl Clock for HeldClock {
    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn wall(&self) -> Timestamp {
        self.clock.wall()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        if duration != self.length {
            return self.clock.sleep(duration);
        }
        let (wake, woken) = oneshot::channel();
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner).push(wake);
        Box::pin(async move {
            let _ = woken.await;
        })
    }
}
