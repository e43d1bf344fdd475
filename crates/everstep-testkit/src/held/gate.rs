//! The gate of a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use everstep_store::{RecordStore, TopicStore};
use tokio::sync::watch;

use super::records::HeldRecords;
use super::topics::HeldTopics;

/// Holds the batches that are sent to a store, until it is open.
#[derive(Debug, Default)]
pub struct StoreGate {
    is_open: watch::Sender<bool>,
    batches: AtomicUsize,
    refuses_starts: AtomicBool,
}

impl StoreGate {
    /// Holds the ops for a store.
    pub fn hold(self: &Arc<Self>, store: Arc<dyn RecordStore>) -> Arc<dyn RecordStore> {
        Arc::new(HeldRecords { store, gate: Arc::clone(self) })
    }

    /// Holds the events for a store.
    pub fn hold_events(self: &Arc<Self>, store: Arc<dyn TopicStore>) -> Arc<dyn TopicStore> {
        Arc::new(HeldTopics { store, gate: Arc::clone(self) })
    }

    pub fn open(&self) {
        self.is_open.send_replace(true);
    }

    /// From now on, the store rejects slices with starts.
    pub fn refuse_starts(&self) {
        self.refuses_starts.store(true, Ordering::SeqCst);
    }

    pub(super) fn refuses_starts(&self) -> bool {
        self.refuses_starts.load(Ordering::SeqCst)
    }

    /// The number of batches that have arrived.
    pub fn batches(&self) -> usize {
        self.batches.load(Ordering::SeqCst)
    }

    /// Counts a batch, and waits until the gate is open.
    pub(super) async fn pass(&self) {
        self.batches.fetch_add(1, Ordering::SeqCst);
        let mut is_open = self.is_open.subscribe();
        // The sender is part of the gate, so the channel is not closed.
        let _ = is_open.wait_for(|is_open| *is_open).await;
    }
}
