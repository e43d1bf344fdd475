//! Runs that this build cannot read. They are paused, never failed: another build may read them. A run that has not
//! begun and whose workflow cannot be read has nothing to lose: it fails.

use std::collections::BTreeMap;
use std::time::Duration;

use everstep_core::failure::{Failure, code};
use everstep_core::ids::RunId;
use everstep_core::journal::{Entry, Event, codec};
use everstep_core::run::Input;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::{CommitOutcome, Gate, Item, NewEntry, Projection, RunRow, StoredRun};

use super::Shard;
use crate::commit::Verdict;
use crate::error::Error;
use crate::observe::CommittedItem;
use crate::run::Loading;
use crate::start;
use crate::watch::Notification;

/// The time for which the inbox rows of a run that cannot be loaded are ignored.
const SHUN_DURATION: Duration = Duration::from_secs(60);
/// The approximate size of an item with one small entry.
const PAUSE_ITEM_BYTES: usize = 512;

#[derive(Default)]
pub(super) struct UnreadableRuns {
    /// Runs whose pause, or failure, is in flight.
    pausing: BTreeMap<RunId, Pausing>,
    /// Runs whose inbox rows are ignored, and until when.
    shunned: BTreeMap<RunId, Duration>,
}

/// A run that is being paused or failed, the entries that record this, and its status afterwards.
struct Pausing {
    row: RunRow,
    entries: Vec<Entry>,
    after: Status,
}

impl UnreadableRuns {
    pub(super) fn is_pausing(&self, run: RunId) -> bool {
        self.pausing.contains_key(&run)
    }

    pub(super) fn shun(&mut self, run: RunId, now: Duration) {
        self.shunned.insert(run, now + SHUN_DURATION);
    }

    pub(super) fn is_shunned(&mut self, run: RunId, now: Duration) -> bool {
        if self.shunned.is_empty() {
            return false;
        }
        self.shunned.retain(|_, until| *until > now);
        self.shunned.contains_key(&run)
    }
}

impl Shard {
    /// Pauses a run whose journal this build cannot read.
    pub(super) fn pause_unreadable(&mut self, loaded: StoredRun, loading: Loading, failure: Failure) {
        tracing::error!(run = %loaded.run.id, %failure, "paused");
        let error = Error::Unavailable(failure.to_string());
        let now = self.services.now();
        if loaded.run.owner == Some(self.services.node) {
            let event = Event::RunPaused { reason: Some(failure.clone()) };
            let read = loaded.entries.last().map(|entry| entry.seq).or(loaded.snapshot.map(|snapshot| snapshot.seq));
            let last = loaded.unreadable.map(|(last, _)| last).or(read).unwrap_or(0);
            let entry = Entry::new(last + 1, now, event);
            let row = NewEntry { seq: entry.seq, at: now, row: codec::encode(&entry) };
            let was_paused = loaded.run.status == Status::Paused;
            let writer = self.services.writer(now);
            let item = Item {
                commit: writer.commit,
                run: loaded.run.id,
                workspace: loaded.run.workspace,
                gate: Gate::Owned,
                format: loaded.run.format,
                entries: if was_paused { Vec::new() } else { vec![row] },
                projection: Some(Projection {
                    status: Status::Paused,
                    owner: None,
                    wake_at: Timestamp::NEVER,
                    output: None,
                    error: Some(failure),
                    ended_at: None,
                    machine: loaded.run.machine.clone(),
                }),
                waits: Vec::new(),
                taken: Vec::new(),
                inbox_inputs: Vec::new(),
                side: None,
            };
            let entries = if was_paused { Vec::new() } else { vec![entry] };
            let pausing = Pausing { row: loaded.run.clone(), entries, after: Status::Paused };
            self.unreadable.pausing.insert(loaded.run.id, pausing);
            self.services.submit(item, PAUSE_ITEM_BYTES);
        }
        self.give_up(loaded.run.id, loading, &error);
    }

    /// Starts and fails a run that has not begun, because its version cannot be read.
    pub(super) fn fail_unstartable(&mut self, loaded: &StoredRun, loading: Loading, failure: &Failure) {
        let (row, now) = (&loaded.run, self.services.now());
        let message = format!("version {} of workflow {:?} cannot be started: {failure}", row.version, row.workflow);
        let failure = Failure::fatal(code::WORKFLOW_NOT_FOUND, message);
        tracing::error!(run = %row.id, %failure, "failed");
        let error = Error::Unavailable(failure.to_string());
        if row.owner == Some(self.services.node) {
            let Input::Start { input, cause } = start::input_from_row(row) else { return };
            let events =
                [Event::RunStarted { input, cause, definition: None }, Event::run_failed(failure.clone(), None)];
            let entries: Vec<_> = (1..).zip(events).map(|(seq, event)| Entry::new(seq, now, event)).collect();
            let rows = entries.iter().map(|entry| NewEntry { seq: entry.seq, at: now, row: codec::encode(entry) });
            let item = Item {
                commit: self.services.writer(now).commit,
                run: row.id,
                workspace: row.workspace,
                gate: Gate::Owned,
                format: row.format,
                entries: rows.collect(),
                projection: Some(Projection {
                    status: Status::Failed,
                    owner: None,
                    wake_at: Timestamp::NEVER,
                    output: None,
                    error: Some(failure),
                    ended_at: Some(now),
                    machine: None,
                }),
                waits: Vec::new(),
                taken: Vec::new(),
                inbox_inputs: Vec::new(),
                side: None,
            };
            let bytes = PAUSE_ITEM_BYTES + row.input.size();
            self.unreadable.pausing.insert(row.id, Pausing { row: row.clone(), entries, after: Status::Failed });
            self.services.submit(item, bytes);
        }
        self.give_up(row.id, loading, &error);
    }

    /// Acts on the verdict of a pause. False if the run is not being paused.
    pub(super) fn settle_pause(&mut self, run: RunId, verdict: &Verdict) -> bool {
        if self.unreadable.pausing.is_empty() {
            return false;
        }
        let Some(Pausing { row, entries, after }) = self.unreadable.pausing.remove(&run) else { return false };
        match verdict {
            // A pause that was not written is tried again: this node may still own the run.
            Verdict::Stored(CommitOutcome::Conflict | CommitOutcome::Lost)
            | Verdict::Refused(_)
            | Verdict::Full(_)
            | Verdict::Withdrawn => {
                self.load(run, Loading::default());
            }
            Verdict::Stored(CommitOutcome::Applied(_) | CommitOutcome::Duplicate | CommitOutcome::Exists(_)) => {
                if let Some(last) = entries.last() {
                    let has_ended = after.has_ended();
                    let news = if has_ended { Notification::Ended(last.seq) } else { Notification::Paused(last.seq) };
                    self.services.watchers.notify(run, news);
                }
                self.services.observe(&CommittedItem {
                    run,
                    workspace: row.workspace,
                    workflow: &row.workflow,
                    version: row.version,
                    folded: None,
                    is_test: row.is_test,
                    parent: None,
                    started_at: entries.first().filter(|first| first.seq == 1).map_or(row.created_at, |first| first.at),
                    created_at: row.created_at,
                    before: Some(row.status),
                    after,
                    entries: &entries,
                    settled: &[],
                    answered: &[],
                });
            }
            Verdict::Fenced { .. } => {}
        }
        true
    }
}
