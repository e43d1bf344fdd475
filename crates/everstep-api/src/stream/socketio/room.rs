//! A run that a connection has joined: its past updates, its status, and its later updates.
//!
//! 1. Every update of a step is sent once, in order, whenever the run was joined.
//! 2. The status of the run is sent at the seq N at which it was joined, after the steps up to N, and then at each
//!    change. So the last message about a run is always its end.
//! 3. Then the room is left.

use everstep_core::ids::RunId;
use everstep_core::status::Status;
use everstep_core::story::{Story, Update};
use everstep_engine::{Follower, JournalEntry};
use tokio::sync::mpsc;

use super::events;

pub(super) struct Room {
    run: RunId,
    follower: Follower,
    story: Story,
    /// The seq at which the run was joined.
    seq: u64,
    /// The status that was sent last.
    sent: Option<Status>,
    out: mpsc::Sender<String>,
}

/// The connection is closed.
struct Gone;

impl Room {
    pub(super) fn new(run: RunId, seq: u64, follower: Follower, out: mpsc::Sender<String>) -> Self {
        let story = Story::live(follower.workflow(), follower.state());
        Self { run, follower, story, seq, sent: None, out }
    }

    /// Sends everything until the run has ended. It waits while the client does not read.
    pub(super) async fn run(mut self) {
        // A closed connection needs no message.
        let _ = self.send_all().await;
    }

    async fn send_all(&mut self) -> Result<(), Gone> {
        if self.follower.after() >= self.seq {
            self.send_status(self.seq).await?;
        }
        while let Some(entry) = self.follower.next().await {
            self.send_entry(&entry).await?;
        }
        Ok(())
    }

    async fn send_entry(&mut self, journal: &JournalEntry) -> Result<(), Gone> {
        let seq = journal.seq;
        // An item changes the status as a whole.
        if journal.commit.is_some() && seq > self.seq {
            self.send_status(seq - 1).await?;
        }
        self.follower.apply(journal);
        if let Ok(entry) = &journal.entry {
            for update in self.story.apply(entry) {
                if let Update::Step(update) = &update
                    && let Some(message) = events::node_update(self.run, update)
                {
                    self.send(message).await?;
                }
            }
        }
        if seq == self.seq || seq > self.seq && self.follower.is_level() {
            self.send_status(seq).await?;
        }
        Ok(())
    }

    /// Sends the status of the run, if it differs from the last one.
    async fn send_status(&mut self, seq: u64) -> Result<(), Gone> {
        let status = self.follower.status();
        if self.sent == Some(status) {
            return Ok(());
        }
        self.sent = Some(status);
        self.send(events::status_update(self.run, &self.follower, seq)).await
    }

    async fn send(&self, text: String) -> Result<(), Gone> {
        self.out.send(text).await.map_err(|_| Gone)
    }
}
