//! The environment of the engine: everything that is not a decision.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use everstep_core::evaluate::Evaluate;
use everstep_core::retry::mix;
use everstep_core::time::Timestamp;
use everstep_handlers::Registry;
use everstep_store::{FileStore, RunStore, TopicStore, WorkflowStore};

use crate::dead_letters::DeadLetters;
use crate::node::clock::NodeClock;
use crate::node::peers::Peers;
use crate::observe::Observe;
use crate::records::Records;

pub(crate) type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The clocks of a machine.
pub trait Clock: Send + Sync {
    /// Monotonic time, from an arbitrary beginning.
    fn monotonic(&self) -> Duration;

    /// The wall clock of the machine. It may jump.
    fn wall(&self) -> Timestamp;

    fn sleep(&self, duration: Duration) -> BoxFuture;
}

pub trait Spawn: Send + Sync {
    fn spawn(&self, future: BoxFuture);
}

pub trait Random: Send + Sync {
    fn next(&self) -> u128;
}

/// All ports together. Cheap to clone.
#[derive(Clone)]
pub struct World {
    pub runs: Arc<dyn RunStore>,
    pub workflows: Arc<dyn WorkflowStore>,
    pub topics: Arc<dyn TopicStore>,
    pub files: Arc<dyn FileStore>,
    /// Of this engine alone.
    pub records: Arc<Records>,
    /// Of this engine alone.
    pub dead_letters: Arc<DeadLetters>,
    pub clock: Arc<NodeClock>,
    pub spawn: Arc<dyn Spawn>,
    pub random: Arc<dyn Random>,
    pub evaluate: Arc<dyn Evaluate>,
    pub handlers: Arc<Registry>,
    pub peers: Arc<dyn Peers>,
    pub observe: Arc<dyn Observe>,
}

impl World {
    pub(crate) async fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }
}

/// The clocks of this machine.
pub struct SystemClock {
    begin: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { begin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        self.begin.elapsed()
    }

    fn wall(&self) -> Timestamp {
        Timestamp::EPOCH.plus(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Spawns on the current tokio runtime.
pub struct TokioSpawner(tokio::runtime::Handle);

impl TokioSpawner {
    /// Must be called from within a runtime.
    pub fn current() -> Self {
        Self(tokio::runtime::Handle::current())
    }
}

impl Spawn for TokioSpawner {
    fn spawn(&self, future: BoxFuture) {
        self.0.spawn(future);
    }
}

/// Random numbers, seeded once by the operating system. They identify things and are not secrets.
pub struct SystemRng {
    seed: (u64, u64),
    count: AtomicU64,
}

impl Default for SystemRng {
    fn default() -> Self {
        Self { seed: uuid::Uuid::new_v4().as_u64_pair(), count: AtomicU64::new(0) }
    }
}

impl Random for SystemRng {
    fn next(&self) -> u128 {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let low = mix(self.seed.0 ^ mix(count));
        let high = mix(self.seed.1 ^ mix(!count));
        u128::from(high) << 64 | u128::from(low)
    }
}
