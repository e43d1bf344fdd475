//! A data store and a clock that wait for a test.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::ids::WorkspaceId;
use everstep_core::records::{LinkPage, LinkQuery, Op, Record, RecordPage, RecordQuery};
use everstep_core::time::Timestamp;
use everstep_engine::{Clock, SystemClock};
use everstep_store::{
    AppliedBatch, ChangePage, ChangeQuery, ExpiredRecord, NamespacePage, NamespaceQuery, RecordKey, RecordStore, Result,
};
use tokio::sync::{oneshot, watch};

/// A store of records that applies no ops before its gate is open.
pub struct HeldStore {
    store: Arc<dyn RecordStore>,
    gate: Arc<StoreGate>,
}

/// The gate of a [`HeldStore`].
#[derive(Debug, Default)]
pub struct StoreGate {
    is_open: watch::Sender<bool>,
    batches: AtomicUsize,
}

impl StoreGate {
    /// Holds the ops for a store.
    pub fn hold(self: &Arc<Self>, store: Arc<dyn RecordStore>) -> Arc<dyn RecordStore> {
        Arc::new(HeldStore { store, gate: Arc::clone(self) })
    }

    pub fn open(&self) {
        self.is_open.send_replace(true);
    }

    /// The number of batches that have arrived.
    pub fn batches(&self) -> usize {
        self.batches.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl RecordStore for HeldStore {
    async fn apply(&self, ops: &[Op], now: Timestamp, kept_until: Timestamp) -> Result<AppliedBatch> {
        self.gate.batches.fetch_add(1, Ordering::SeqCst);
        let mut is_open = self.gate.is_open.subscribe();
        // The sender is part of the gate, so the channel is not closed.
        let _ = is_open.wait_for(|is_open| *is_open).await;
        self.store.apply(ops, now, kept_until).await
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Option<Record>>> {
        self.store.get(keys).await
    }

    async fn list(&self, workspace: WorkspaceId, query: &RecordQuery, now: Timestamp) -> Result<RecordPage> {
        self.store.list(workspace, query, now).await
    }

    async fn links(&self, workspace: WorkspaceId, query: &LinkQuery) -> Result<LinkPage> {
        self.store.links(workspace, query).await
    }

    async fn namespaces(&self, workspace: WorkspaceId, query: &NamespaceQuery) -> Result<NamespacePage> {
        self.store.namespaces(workspace, query).await
    }

    async fn changes(&self, workspace: WorkspaceId, query: &ChangeQuery) -> Result<ChangePage> {
        self.store.changes(workspace, query).await
    }

    async fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<ExpiredRecord>> {
        self.store.expired(now, limit).await
    }

    async fn sweep_changes(&self, now: Timestamp, limit: usize) -> Result<usize> {
        self.store.sweep_changes(now, limit).await
    }
}

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
