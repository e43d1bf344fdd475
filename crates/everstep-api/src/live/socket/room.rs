//! A run that a connection has joined: what happened so far, how it stands, and what happens from then on.
//!
//! 1. Every entry about a step is told once, in order, whenever the run was joined.
//! 2. How the run stands is told at the seq N at which it was joined, after the steps up to N, and then whenever its
//!    status has changed. So the last word about a run is always its end.
//! 3. Then the room is left.

use everstep_core::ids::RunId;
use everstep_core::status::Status;
use everstep_store::StoredEntry;
use tokio::sync::mpsc;

use super::words;
use crate::live::feed::Feed;
use crate::live::fold::{Fold, Snapshot};

pub(super) struct Room {
    run: RunId,
    feed: Feed,
    fold: Fold,
    /// The seq at which the run was joined.
    seq: u64,
    told: Option<Status>,
    out: mpsc::Sender<String>,
}

/// The connection is gone.
struct Gone;

impl Room {
    pub(super) fn new(run: RunId, snapshot: Snapshot, feed: Feed, out: mpsc::Sender<String>) -> Self {
        Self { run, feed, fold: snapshot.fold, seq: snapshot.seq, told: None, out }
    }

    /// Tells everything until the run has ended. It waits while the client does not read.
    pub(super) async fn run(mut self) {
        // Whoever is gone needs no word.
        let _ = self.tell_all().await;
    }

    async fn tell_all(&mut self) -> Result<(), Gone> {
        if self.feed.after() >= self.seq {
            self.settle(self.seq).await?;
        }
        while let Some(entry) = self.feed.next().await {
            self.tell(&entry).await?;
        }
        Ok(())
    }

    async fn tell(&mut self, stored: &StoredEntry) -> Result<(), Gone> {
        let seq = stored.seq;
        // An item changes the status as a whole.
        if stored.commit.is_some() && seq > self.seq {
            self.settle(seq - 1).await?;
        }
        let entry = self.fold.apply(stored);
        if let Some(update) = entry.and_then(|entry| words::node_update(self.run, &self.fold, &entry)) {
            self.send(update).await?;
        }
        if seq == self.seq || seq > self.seq && self.feed.is_level() {
            self.settle(seq).await?;
        }
        Ok(())
    }

    /// Tells how the run stands, if that is another status than before.
    async fn settle(&mut self, seq: u64) -> Result<(), Gone> {
        let status = self.fold.status();
        if self.told == Some(status) {
            return Ok(());
        }
        self.told = Some(status);
        self.send(words::status_update(self.run, &self.fold, seq)).await
    }

    async fn send(&self, text: String) -> Result<(), Gone> {
        self.out.send(text).await.map_err(|_| Gone)
    }
}
