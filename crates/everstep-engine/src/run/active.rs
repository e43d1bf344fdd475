//! A run in memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use everstep_core::code::Report;
use everstep_core::evaluate::Evaluate;
use everstep_core::failure::{Failure, code};
use everstep_core::ids::{RunId, StepKey, WorkspaceId};
use everstep_core::journal::Entry;
use everstep_core::journal::codec;
use everstep_core::limits;
use everstep_core::run::decide::{self, Decision};
use everstep_core::run::keys;
use everstep_core::run::{Cx, Input, OpenStep, OpenWhat, Reply, SNAPSHOT_FORMAT, State};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::workflow::Workflow;
use everstep_store::{InboxId, Loaded, RunRow, StoredEntry};
use futures_util::future::AbortHandle;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::message::{Mail, Place, Respond};
use crate::start::Begun;
use crate::workers::{self, AtWorker};

/// How many answered inbox rows a run remembers.
const ROWS: usize = 64;

/// Where a run stands in its shard.
#[expect(clippy::large_enum_variant, reason = "few runs are loading, and only for a moment")]
pub(crate) enum Slot {
    Loading(Loading),
    Held(Box<Held>),
}

/// A run whose journal is being read.
#[derive(Default)]
pub(crate) struct Loading {
    pub(crate) mailbox: VecDeque<Mail>,
    /// Tasks that went on while the run was reloaded.
    pub(crate) performing: Performing,
    /// The worker that has the run's turn.
    pub(crate) at_worker: Option<AtWorker>,
    /// The run's place, if it is counted as owned.
    pub(crate) place: Option<Place>,
    /// Whether it was claimed after the reading began: what is read may be older.
    pub(crate) must_reload: bool,
    /// The seq at which an item was refused before.
    pub(crate) conflict: Option<u64>,
    /// What is to be decided before anything else, and alone: that the run is to be paused, or that it fails.
    pub(crate) urgent: Option<Input>,
}

/// Open tasks that somebody performs, with their attempts.
#[derive(Default)]
pub(crate) struct Performing(BTreeMap<StepKey, (u32, AbortHandle)>);

impl Performing {
    pub(crate) fn insert(&mut self, step: StepKey, attempt: u32, abort: AbortHandle) {
        if let Some((_, before)) = self.0.insert(step, (attempt, abort)) {
            before.abort();
        }
    }

    pub(crate) fn has(&self, step: &StepKey, attempt: u32) -> bool {
        self.0.get(step).is_some_and(|(performed, _)| *performed == attempt)
    }

    /// A task has reported its end.
    pub(crate) fn finish(&mut self, step: &StepKey, attempt: u32) {
        if self.has(step, attempt) {
            self.0.remove(step);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Stops every task.
    pub(crate) fn abort(self) {
        for (_, abort) in self.0.into_values() {
            abort.abort();
        }
    }

    /// Stops every task that the run no longer wants.
    pub(crate) fn keep_open(&mut self, state: &State) {
        self.0.retain(|step, (attempt, abort)| {
            let is_wanted = !state.has_ended() && state.has_open_task(step, *attempt);
            if !is_wanted {
                abort.abort();
            }
            is_wanted
        });
    }
}

/// Whether this node may write to a run, and by which gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tenure {
    Owned,
    /// Nobody owns the run; it is here to answer an input.
    Visiting,
}

/// **Invariant**: while an item is in flight nothing is decided, so the state is what the item leaves behind.
pub(crate) struct Held {
    pub(crate) workspace: WorkspaceId,
    pub(crate) workflow: Arc<Workflow>,
    pub(crate) is_test: bool,
    /// Which workers it needs; empty for what the server performs by itself.
    pub(crate) lane: Arc<str>,
    pub(crate) state: State,
    pub(crate) tenure: Tenure,
    pub(crate) mailbox: VecDeque<Mail>,
    pub(crate) has_more: bool,
    pub(crate) flight: Option<Flight>,
    pub(crate) performing: Performing,
    /// The worker that has the run's turn.
    pub(crate) at_worker: Option<AtWorker>,
    /// Whether a worker is to run its function from the top.
    pub(crate) wants_turn: bool,
    /// When the row of a run that is only visited says that it is due.
    pub(crate) due_by_row: Timestamp,
    /// The status that the run's row shows.
    pub(crate) status: Status,
    /// Waits that have a row.
    pub(crate) waits: BTreeSet<StepKey>,
    /// Whether the rows of the waits may be missing: those of a fork are not written with it.
    pub(crate) renews_waits: bool,
    /// Children that somebody is starting, or has started.
    pub(crate) called: BTreeSet<RunId>,
    /// Children that are known to be there.
    pub(crate) born: BTreeSet<RunId>,
    /// Inbox rows that were answered lately: whoever read the inbox before that may still bring them.
    rows: VecDeque<InboxId>,
    /// The time under which the shard will look at this run again.
    pub(crate) timer: Option<Timestamp>,
    pub(crate) snapshot_seq: u64,
    pub(crate) conflict: Option<u64>,
    /// What is to be decided before anything else, and alone.
    pub(crate) urgent: Option<Input>,
    /// The run's place while it is owned.
    pub(crate) place: Option<Place>,
    /// The place of a claim that was made while the run was here: it must be read anew.
    pub(crate) claim: Option<Place>,
    pub(crate) weight: usize,
}

/// An item on its way to the store, and who waits for it.
pub(crate) struct Flight {
    pub(crate) answered: Vec<(Mail, Reply)>,
    pub(crate) start: Option<oneshot::Sender<Result<Begun, Error>>>,
    /// The row that a start makes, if somebody is to be told.
    pub(crate) row: Option<Box<RunRow>>,
    pub(crate) dispatched: Vec<(StepKey, u32)>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) since: Vec<Option<Timestamp>>,
    pub(crate) has_messages: bool,
    /// The seq of the item's first entry, if it has entries.
    pub(crate) first_seq: Option<u64>,
    pub(crate) becomes: Becomes,
    /// The status that the run's row had; none before its start.
    pub(crate) before: Option<Status>,
    pub(crate) status: Status,
}

/// What a run is once its item is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Becomes {
    Owned,
    /// Unowned until a time.
    Parked(Timestamp),
    Ended,
}

/// What the waiting inputs of a run led to.
#[derive(Default)]
pub(crate) struct Decided {
    pub(crate) entries: Vec<Entry>,
    /// For each entry that settles a step: when that was dispatched.
    pub(crate) since: Vec<Option<Timestamp>>,
    pub(crate) answered: Vec<(Mail, Reply)>,
}

impl Decided {
    /// Whether a report of a turn was refused.
    fn has_refused(&self, turn: u32) -> bool {
        let is_of_turn = |mail: &Mail| matches!(&mail.input, Input::Report { turn: of, .. } if *of == turn);
        self.answered.iter().any(|(mail, reply)| matches!(reply, Reply::Refused { .. }) && is_of_turn(mail))
    }
}

impl Held {
    pub(crate) fn new(workspace: WorkspaceId, workflow: Arc<Workflow>, run: RunId) -> Self {
        let state = State::new(run, &workflow);
        Self {
            lane: workers::lane(workspace, &workflow),
            workspace,
            workflow,
            is_test: false,
            state,
            tenure: Tenure::Owned,
            mailbox: VecDeque::new(),
            has_more: false,
            flight: None,
            performing: Performing::default(),
            at_worker: None,
            wants_turn: false,
            due_by_row: Timestamp::NEVER,
            status: Status::Pending,
            waits: BTreeSet::new(),
            renews_waits: false,
            called: BTreeSet::new(),
            born: BTreeSet::new(),
            rows: VecDeque::new(),
            timer: None,
            snapshot_seq: 0,
            conflict: None,
            urgent: None,
            place: None,
            claim: None,
            weight: 0,
        }
    }

    /// Folds a journal that was read.
    pub(crate) fn load(loaded: &Loaded, workflow: &Arc<Workflow>, tenure: Tenure) -> Result<Self, Failure> {
        let unreadable = |message: String| Failure::fatal(code::JOURNAL_UNREADABLE, message);
        let mut held = Self::new(loaded.run.workspace, Arc::clone(workflow), loaded.run.id);
        if let Some(snapshot) = &loaded.snapshot {
            held.state = State::from_snapshot(workflow, &snapshot.state).map_err(unreadable)?;
            held.snapshot_seq = snapshot.seq;
        }
        for entry in &loaded.entries {
            let entry = read_entry(entry).map_err(|error| unreadable(error.to_string()))?;
            held.state.apply(workflow, &entry).map_err(|misfit| unreadable(misfit.to_string()))?;
        }
        held.tenure = tenure;
        held.is_test = loaded.run.is_test;
        held.status = loaded.run.status;
        held.waits = held.open_waits().collect();
        held.renews_waits = loaded.run.origin.is_some() && !held.waits.is_empty();
        Ok(held)
    }

    fn open_waits(&self) -> impl Iterator<Item = StepKey> {
        let open = self.state.open().filter(|_| !self.state.has_ended());
        open.filter(|open| matches!(open.what, OpenWhat::Wait { .. })).map(|open| open.step.clone())
    }

    /// Takes due timers and all waiting inputs through the core, each on the state that the one before left.
    pub(crate) fn decide_all(&mut self, now: Timestamp, evaluate: &dyn Evaluate) -> Decided {
        let mut decided = Decided::default();
        if let Some(input) = self.urgent.take() {
            decided.entries = decide::record(&self.workflow, &mut self.state, input, Cx { now, evaluate });
            if !decided.entries.is_empty() {
                return decided;
            }
        }
        while decided.entries.len() < limits::EVENTS_PER_DECISION {
            let Some(mut mail) = self.next_mail(now) else { break };
            if mail.workspace.is_some_and(|workspace| workspace != self.workspace) {
                mail.answer(Err(Error::RunNotFound(self.state.run)));
                continue;
            }
            if matches!(&mail.respond, Respond::Worker(session, _) if !session.serves(&self.lane)) {
                mail.answer(Err(Error::RunNotFound(self.state.run)));
                continue;
            }
            match &mail.input {
                Input::Result { step, attempt, .. } => self.performing.finish(step, *attempt),
                Input::ChildStarted { child, .. } => _ = self.born.insert(*child),
                Input::Report { turn, report } => {
                    let has_refused = matches!(**report, Report::Blocked { .. }) && decided.has_refused(*turn);
                    self.hear(*turn, report, &mail.respond, has_refused);
                }
                // A function that only waited can be run anew when there is something for it.
                Input::LoseTurn { turn } if self.at_worker.as_ref().is_none_or(|at| at.is_blocked) => {
                    self.drop_turn(*turn);
                    continue;
                }
                _ => {}
            }
            // What was accepted before has changed the version itself.
            let known = mail.key.as_deref().and_then(|key| keys::answer(&self.state, &mail.input, key));
            if known.is_none() && mail.expected.is_some_and(|expected| expected != self.state.seq) {
                let message = "Concurrent modification detected".to_owned();
                decided.answered.push((mail, Reply::refused("CONCURRENCY_ERROR", message)));
                continue;
            }
            let key = mail.key.as_deref();
            let cx = Cx { now, evaluate };
            let decision = decide::decide(&self.workflow, &mut self.state, mail.input.clone(), key, cx);
            let Decision { entries, since, reply, has_more } = decision;
            self.has_more = has_more;
            let known = mail.input.report().and_then(Report::step).and_then(|step| self.state.code()?.step(step));
            mail.seq = entries.first().map(|entry| entry.seq).or(known.map(|step| step.seq));
            self.forget_child(&mail.input);
            if let Input::LoseTurn { turn } = &mail.input {
                self.drop_turn(*turn);
            }
            decided.entries.extend(entries);
            decided.since.extend(since);
            decided.answered.push((mail, reply));
        }
        decided
    }

    /// What is decided next: the rest of a full item, then a due timer, then what waits in the mailbox.
    fn next_mail(&mut self, now: Timestamp) -> Option<Mail> {
        if std::mem::take(&mut self.has_more) {
            return Some(Mail::of(Input::Settle));
        }
        match self.state.first_due(now) {
            Some((step, attempt)) => Some(Mail::of(Input::Timer { step, attempt })),
            None => self.mailbox.pop_front(),
        }
    }

    /// Tasks that the journal knows and nobody performs are lost. So is whatever was dispatched before a crash.
    /// A task whose result waits in the mailbox is not.
    pub(crate) fn find_lost_tasks(&mut self) {
        let reported: BTreeSet<(&StepKey, u32)> = self
            .mailbox
            .iter()
            .filter_map(|mail| match &mail.input {
                Input::Result { step, attempt, .. } => Some((step, *attempt)),
                _ => None,
            })
            .collect();
        let lost: Vec<_> = self
            .state
            .open()
            .filter(|open| open.what == OpenWhat::Task && !self.performing.has(open.step, open.attempt))
            .filter(|open| !reported.contains(&(open.step, open.attempt)))
            .map(|open| Mail::of(Input::TaskLost { step: open.step.clone(), attempt: open.attempt }))
            .collect();
        self.mailbox.extend(lost);
    }

    /// What the run is to be after its next item.
    pub(crate) fn becomes(&self, now: Timestamp, park_after: Duration) -> Becomes {
        if self.state.has_ended() {
            return Becomes::Ended;
        }
        // While a run is paused its lost tasks stay lost: only what is really performed keeps it here.
        let is_busy = if self.state.is_paused() { !self.performing.is_empty() } else { self.state.has_open_tasks() };
        if self.has_more || is_busy || !self.mailbox.is_empty() || self.has_unborn_children() {
            return Becomes::Owned;
        }
        if self.workflow.needs_worker()
            && let Some(becomes) = self.code_becomes(now)
        {
            return becomes;
        }
        let due = self.state.next_due().unwrap_or(Timestamp::NEVER);
        if due > now.plus(park_after) { Becomes::Parked(due) } else { Becomes::Owned }
    }

    /// Whether the run does nothing but wait for a timer.
    pub(crate) fn is_idle(&self) -> bool {
        self.tenure == Tenure::Owned
            && self.flight.is_none()
            && self.mailbox.is_empty()
            && !self.has_more
            && self.at_worker.as_ref().is_none_or(|at| at.is_blocked)
            && !self.wants_turn
            && !self.state.has_open_tasks()
            && !self.has_unborn_children()
    }

    pub(crate) fn take_children_as_born(&mut self) {
        if self.state.has_open_children() {
            let child = |open: OpenStep<'_>| match open.what {
                OpenWhat::Child(child) => Some(child.run),
                _ => None,
            };
            self.born.extend(self.state.open().filter_map(child));
        }
    }

    /// A child whose step is not open any more is nobody's concern.
    fn forget_child(&mut self, input: &Input) {
        if let Input::ChildStarted { step, attempt, child } | Input::ChildEnded { step, attempt, child, .. } = input
            && self.state.parent_of(step, *attempt).is_none()
        {
            self.born.remove(child);
            self.called.remove(child);
        }
    }

    pub(crate) fn remember_rows(&mut self, answered: &[(Mail, Reply)]) {
        self.rows.extend(answered.iter().filter_map(|(mail, _)| mail.inbox));
        let excess = self.rows.len().saturating_sub(ROWS);
        self.rows.drain(..excess);
    }

    /// Whether an inbox row waits here, is being answered, or was.
    pub(crate) fn has_row(&self, mail: &Mail) -> bool {
        let Some(row) = mail.inbox else { return false };
        let answered = self.flight.iter().flat_map(|flight| &flight.answered).map(|(mail, _)| mail);
        self.rows.contains(&row) || self.mailbox.iter().chain(answered).any(|mail| mail.inbox == Some(row))
    }

    /// Whether a child is not known to be there.
    fn has_unborn_children(&self) -> bool {
        let is_unborn =
            |open: OpenStep<'_>| matches!(open.what, OpenWhat::Child(child) if !self.born.contains(&child.run));
        self.state.has_open_children() && !self.state.is_paused() && self.state.open().any(is_unborn)
    }
}

pub(crate) fn read_entry(stored: &StoredEntry) -> Result<Entry, codec::Unreadable> {
    codec::decode(stored.seq, stored.at, stored.row.clone())
}

/// Whether this build can use a snapshot.
pub(crate) fn is_usable(snapshot: &everstep_store::Snapshot) -> bool {
    snapshot.format == SNAPSHOT_FORMAT && serde_json::from_slice::<State>(&snapshot.state).is_ok()
}
