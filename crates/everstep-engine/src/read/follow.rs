//! Follows a run: every entry of its journal once, in order, up to the run's end, with the state after it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::journal::Kind;
use everstep_core::payload::Payload;
use everstep_core::run::State;
use everstep_core::status::Status;
use everstep_core::workflow::Workflow;
use everstep_store::StoredEntry;
use tokio::sync::watch;

use super::followed::{RunHead, RunStage};
use super::journal::JournalEntry;
use super::runs::{LoadedRun, Runs};
use crate::engine::Engine;

/// The number of entries that are read together, at first and at most.
const FIRST_BATCH_ENTRIES: usize = 8;
const BATCH_ENTRIES_MAX: usize = 32;
/// The target size of a batch: a single entry may have a mebibyte.
const BATCH_BYTES_TARGET: usize = 512 * 1024;
/// The pause before a read is repeated after the database did not reply.
const RETRY_READ_AFTER: Duration = Duration::from_millis(500);

/// The entries of one run for one reader. Reading follows the pace of the reader: at most one batch is held.
pub struct Follower {
    engine: Engine,
    run: RunId,
    /// The seq of the last entry that was returned.
    after: u64,
    head: watch::Receiver<RunHead>,
    batch: VecDeque<StoredEntry>,
    batch_entries: usize,
    /// The status by the entries alone, for a journal that this build cannot fold.
    status: Status,
    workflow: Option<Arc<Workflow>>,
    state: Option<State>,
    /// Why the journal cannot be read to its end.
    read_error: Option<everstep_store::Error>,
}

impl Runs {
    /// Follows a run from after an entry. `loaded` is the run as its follower has received it: its state already
    /// contains the entries up to there.
    pub fn follow(&self, workspace: WorkspaceId, loaded: LoadedRun, after: u64) -> Follower {
        let status = loaded.status();
        let stage = if status.has_ended() { RunStage::Ended } else { RunStage::Open };
        let head = RunHead { seq: loaded.row.seq, stage };
        let run = loaded.row.id;
        Follower {
            head: self.engine.followed().follow(&self.engine, workspace, run, head),
            engine: self.engine.clone(),
            run,
            after,
            batch: VecDeque::new(),
            batch_entries: FIRST_BATCH_ENTRIES,
            status: loaded.row.status,
            workflow: loaded.workflow,
            state: loaded.state,
            read_error: None,
        }
    }
}

impl Follower {
    /// The next entry, as soon as it exists; `None` after the last entry of a run that has ended or was deleted, and if
    /// the database rejects the read (see [`Follower::take_read_error`]). The state changes only with
    /// [`Follower::apply`]. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<JournalEntry> {
        loop {
            if let Some(entry) = self.next_read() {
                return Some(entry);
            }
            let head = *self.head.borrow_and_update();
            match head.stage {
                RunStage::Deleted => return None,
                _ if head.seq > self.after => match self.read().await {
                    Ok(()) if !self.batch.is_empty() => continue,
                    Ok(()) => {}
                    Err(error) if error.is_transient() => {
                        self.engine.world().sleep(RETRY_READ_AFTER).await;
                        continue;
                    }
                    Err(error) => {
                        tracing::warn!(run = %self.run, %error, "a followed journal cannot be read");
                        self.read_error = Some(error);
                        return None;
                    }
                },
                RunStage::Ended => return None,
                RunStage::Open => {}
            }
            self.head.changed().await.ok()?;
        }
    }

    /// The next entry, if it is already read.
    pub fn next_read(&mut self) -> Option<JournalEntry> {
        let entry = JournalEntry::decode(self.batch.pop_front()?);
        self.after = entry.seq;
        Some(entry)
    }

    /// Why [`Follower::next`] ended before the run did.
    pub fn take_read_error(&mut self) -> Option<everstep_store::Error> {
        self.read_error.take()
    }

    /// The seq of the entry that was returned last, or where the follower began.
    pub fn after(&self) -> u64 {
        self.after
    }

    /// Whether the entry that was returned last is the last known one: then it also ends its item.
    pub fn is_level(&self) -> bool {
        self.batch.is_empty() && self.head.borrow().seq <= self.after
    }

    /// The run's status after the entry that was applied last. It is exact at the end of an item.
    pub fn status(&self) -> Status {
        self.state.as_ref().map_or(self.status, State::status)
    }

    /// Why the run failed or is paused.
    pub fn failure(&self) -> Option<&Failure> {
        self.state.as_ref().and_then(State::failure)
    }

    /// The context without variables that begin with `__`; null if this build cannot compute it.
    pub fn context(&self) -> Payload {
        let context = self.workflow.as_ref().zip(self.state.as_ref());
        context.map_or_else(Payload::null, |(workflow, state)| state.context(workflow))
    }

    /// The run's workflow; none if this build cannot read it.
    pub fn workflow(&self) -> Option<&Arc<Workflow>> {
        self.workflow.as_ref()
    }

    /// The run's state; none if this build cannot read all of the journal.
    pub fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    /// Applies the entry that was returned last to the state, unless the state contained it from the beginning.
    pub fn apply(&mut self, journal: &JournalEntry) {
        self.status = status_after(journal.kind, self.status);
        let is_folded = match (&journal.entry, &self.workflow, &mut self.state) {
            (Ok(entry), Some(_), Some(state)) if entry.seq <= state.seq => true,
            (Ok(entry), Some(workflow), Some(state)) => state.apply(workflow, entry).is_ok(),
            _ => false,
        };
        if !is_folded {
            self.state = None;
        }
    }

    async fn read(&mut self) -> everstep_store::Result<()> {
        let batch = self.engine.world().runs.journal(self.run, self.after, self.batch_entries).await?;
        let bytes: usize = batch.iter().map(|entry| entry.row.payload.len()).sum();
        let fitting = BATCH_BYTES_TARGET * batch.len().max(1) / bytes.max(1);
        self.batch_entries = fitting.clamp(1, BATCH_ENTRIES_MAX.min(self.batch_entries * 2));
        self.batch = batch.into();
        Ok(())
    }
}

/// The status that follows from the kind of an entry alone.
fn status_after(kind: Kind, before: Status) -> Status {
    match kind {
        Kind::RunStarted | Kind::RunResumed | Kind::RunRetried => Status::Running,
        Kind::RunPaused => Status::Paused,
        Kind::RunCompleted => Status::Completed,
        Kind::RunFailed => Status::Failed,
        Kind::RunCancelled => Status::Cancelled,
        Kind::StepDispatched
        | Kind::StepCompleted
        | Kind::StepFailed
        | Kind::StepSkipped
        | Kind::TimerSet
        | Kind::TimerFired
        | Kind::WaitOpened
        | Kind::WaitResolved
        | Kind::SignalBuffered
        | Kind::TurnStarted
        | Kind::TurnLost
        | Kind::TransitionApplied
        | Kind::VoteCast
        | Kind::Assigned
        | Kind::ContextSet => before,
    }
}
