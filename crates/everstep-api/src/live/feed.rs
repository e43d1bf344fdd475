//! Reads a run's journal on: every entry once, in order, up to the run's end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::RunId;
use everstep_engine::Engine;
use everstep_store::{RunStore, StoredEntry};
use tokio::sync::watch;

use super::hub::{Seen, Stage};

/// Entries that are read at once, at first and at most.
const FIRST: usize = 8;
const MOST: usize = 32;
/// A page should hold no more bytes than this: an entry may have a mebibyte.
const BYTES: usize = 512 * 1024;
/// How long to wait before a database that did not answer is asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// The entries of one run for one reader. Who reads slowly is read for slowly: at most a page is kept.
pub(crate) struct Feed {
    store: Arc<dyn RunStore>,
    run: RunId,
    /// The seq of the last entry that was taken.
    after: u64,
    seen: watch::Receiver<Seen>,
    page: VecDeque<StoredEntry>,
    limit: usize,
}

impl Feed {
    pub(crate) fn new(engine: &Engine, seen: watch::Receiver<Seen>, run: RunId, after: u64) -> Self {
        let store = Arc::clone(&engine.world().runs);
        Self { store, run, after, seen, page: VecDeque::new(), limit: FIRST }
    }

    /// The next entry, as soon as there is one; `None` after the last one of a run that has ended or is gone.
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Option<StoredEntry> {
        loop {
            if let Some(entry) = self.page.pop_front() {
                self.after = entry.seq;
                return Some(entry);
            }
            let seen = *self.seen.borrow_and_update();
            match seen {
                Seen { stage: Stage::Gone, .. } => return None,
                Seen { seq, .. } if seq > self.after => match self.read().await {
                    Ok(()) if !self.page.is_empty() => continue,
                    Ok(()) => {}
                    Err(error) if error.is_transient() => {
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                    Err(error) => {
                        tracing::warn!(run = %self.run, %error, "a journal that is followed cannot be read");
                        return None;
                    }
                },
                Seen { stage: Stage::Ended, .. } => return None,
                Seen { stage: Stage::GoesOn, .. } => {}
            }
            self.seen.changed().await.ok()?;
        }
    }

    /// The seq of the entry that was taken last, or where the feed began.
    pub(crate) fn after(&self) -> u64 {
        self.after
    }

    /// Whether the entry that was taken last is the last that is known: then it also ends its item.
    pub(crate) fn is_level(&self) -> bool {
        self.page.is_empty() && self.seen.borrow().seq <= self.after
    }

    async fn read(&mut self) -> everstep_store::Result<()> {
        let page = self.store.journal(self.run, self.after, self.limit).await?;
        let bytes: usize = page.iter().map(|entry| entry.row.payload.len()).sum();
        let fitting = BYTES * page.len().max(1) / bytes.max(1);
        self.limit = fitting.clamp(1, MOST.min(self.limit * 2));
        self.page = page.into();
        Ok(())
    }
}
