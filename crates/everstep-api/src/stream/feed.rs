//! A run as its followers receive it, whatever carries the messages.
//!
//! 1. A follower that does not name an entry receives a snapshot, and then the later entries.
//! 2. Every entry is received once, in order.
//! 3. A status follows the last entry of an item that has changed the run's status.
//! 4. After the last entry of a run that has ended, the end follows, and nothing more.

use std::collections::VecDeque;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::status::Status;
use everstep_engine::{Follower, HeadFold, JournalEntry, LoadedRun};

use super::wire::{EndEvent, SnapshotEvent, StatusEvent};
use crate::http::problem::Problem;
use crate::resources::runs::wire::{Entry, EntryView, Head, Run};
use crate::resources::runs::{self, EntryForm};
use crate::server::AppState;

/// A run, read at one moment, with all facts that following it needs.
pub(crate) struct JoinedRun {
    pub(crate) run: Run,
    /// The seq of the last entry that is part of it.
    pub(crate) seq: u64,
    loaded: LoadedRun,
}

impl JoinedRun {
    /// Reads a run of a workspace.
    pub(crate) async fn load(app: &AppState, workspace: WorkspaceId, run: RunId) -> Result<Self, Problem> {
        runs::row(app, workspace, run).await?;
        let _permit = app.hub.loads.acquire().await.expect("the semaphore is never closed");
        let loaded = app.engine.runs().load(run).await?;
        Ok(Self { run: runs::show_loaded(app, &loaded).await, seq: loaded.row.seq, loaded })
    }

    pub(crate) fn status(&self) -> Status {
        self.loaded.status()
    }

    /// Rejects a request to continue after an entry that does not exist.
    pub(crate) fn check(&self, after: u64) -> Result<(), Problem> {
        if after <= self.seq {
            return Ok(());
        }
        let detail = format!("the run's last entry is {}; there is nothing after {after}", self.seq);
        Err(Problem::invalid(detail).hint("send the seq of an entry of this run, or no seq"))
    }

    /// Follows the run from after an entry.
    pub(crate) fn follow(self, app: &AppState, workspace: WorkspaceId, after: u64) -> (Run, Follower) {
        (self.run, app.engine.runs().follow(workspace, self.loaded, after))
    }

    /// Follows the run from after an entry, or from now on with a snapshot.
    pub(super) async fn feed(
        self,
        app: &AppState,
        workspace: WorkspaceId,
        after: Option<u64>,
        form: EntryForm,
    ) -> Result<RunFeed, Problem> {
        let (seq, from) = (self.seq, after.unwrap_or(self.seq));
        let heads = match form {
            EntryForm::Whole => None,
            EntryForm::Head => {
                let _permit = app.hub.loads.acquire().await.expect("the semaphore is never closed");
                Some(app.engine.runs().head_fold(&self.loaded.row, from).await?)
            }
        };
        let (run, follower) = self.follow(app, workspace, from);
        let mut feed = RunFeed { follower, heads, sent: None, seq, messages: VecDeque::new(), is_over: false };
        feed.begin(after.is_none().then_some(run));
        Ok(feed)
    }
}

/// One message about a followed run.
pub(super) enum RunMessage {
    Snapshot { seq: u64, data: Box<SnapshotEvent> },
    Entry { seq: u64, data: EntryView },
    Status(StatusEvent),
    End(EndEvent),
}

/// The messages about a followed run.
pub(super) struct RunFeed {
    follower: Follower,
    /// The fold of the entries up to the last one, for followers of heads.
    heads: Option<HeadFold>,
    /// The status that was sent last.
    sent: Option<Status>,
    /// The seq of the last entry that was part of the run when the feed began.
    seq: u64,
    /// Messages that precede the next entry.
    messages: VecDeque<RunMessage>,
    is_over: bool,
}

impl RunFeed {
    /// The next message, as soon as it exists; none after the end. Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Option<RunMessage> {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Some(message);
            }
            if self.is_over {
                return None;
            }
            match self.follower.next().await {
                Some(journal) => self.receive(journal),
                None => {
                    let status = Some(self.follower.status()).filter(|status| status.has_ended());
                    self.messages.push_back(RunMessage::End(EndEvent { status: status.map(Status::as_str) }));
                    self.is_over = true;
                }
            }
        }
    }

    fn begin(&mut self, run: Option<Run>) {
        match run {
            Some(run) => {
                self.sent = Some(self.follower.status());
                let data = Box::new(SnapshotEvent { run, context: self.follower.context() });
                self.messages.push_back(RunMessage::Snapshot { seq: self.seq, data });
            }
            // The client has all entries and needs only the status.
            None if self.follower.after() == self.seq => self.push_status(self.seq),
            None => {}
        }
    }

    fn receive(&mut self, journal: JournalEntry) {
        let seq = journal.seq;
        // An item changes the status as a whole: it is complete when the next item begins. The statuses of items that
        // were part of the run when the feed began are not sent.
        if journal.commit.is_some() && seq > self.seq {
            self.push_status(seq - 1);
        }
        self.follower.apply(&journal);
        let data = match &mut self.heads {
            Some(fold) => EntryView::Head(Box::new(Head::from_journal(&journal, fold.apply(&journal)))),
            None => EntryView::Whole(Box::new(Entry::from_journal(journal))),
        };
        self.messages.push_back(RunMessage::Entry { seq, data });
        if seq >= self.seq && self.follower.is_level() {
            self.push_status(seq);
        }
    }

    /// Adds the status, if it differs from the last one.
    fn push_status(&mut self, seq: u64) {
        let status = self.follower.status();
        if self.sent != Some(status) {
            self.sent = Some(status);
            self.messages.push_back(RunMessage::Status(StatusEvent { status: status.as_str(), seq }));
        }
    }
}
