//! The fold of a journal for readers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::observe::timer;
use super::read::{StepContext, read};
use super::run::RunStory;
use super::step::StepStory;
use super::update::{RunChange, RunUpdate, StepChange, StepUpdate, Update};
use crate::ids::StepKey;
use crate::journal::{Entry, Event, TimerPurpose};
use crate::run::State;
use crate::status::{Status, StepStatus};
use crate::style::StepFacts;
use crate::workflow::Workflow;

/// The history of a run so far.
///
/// **Invariant**: a story is a function of the entries that were applied to it. Only [`Story::apply`] changes it.
#[derive(Clone, Debug)]
pub struct Story {
    pub run: RunStory,
    pub(super) facts: StepFacts,
    scope: Scope,
    /// Steps by the seq of their first entry.
    pub(super) steps: BTreeMap<u64, StepStory>,
    pub(super) index: BTreeMap<StepKey, u64>,
}

/// Which entries a story receives, and which steps it contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// All entries from the first. The story contains all steps.
    Whole,
    /// Entries from some entry on. Steps that began earlier are left out.
    Page,
    /// Entries from some entry on. The story contains only open steps: a follower needs only updates.
    Live,
}

impl Story {
    /// The story of a run that is read from its first entry.
    pub fn new(workflow: Option<&Arc<Workflow>>) -> Self {
        Self::with(StepFacts::new(workflow), Scope::Whole)
    }

    /// The story of the steps that begin after some entry. Steps that began earlier are left out. If the style cannot
    /// distinguish them, the story is whole and must be read from its first entry: see [`Story::is_whole`].
    pub fn page(workflow: Option<&Arc<Workflow>>) -> Self {
        let facts = StepFacts::new(workflow);
        let scope = if facts.needs_whole_journal() { Scope::Whole } else { Scope::Page };
        Self::with(facts, scope)
    }

    /// A story that produces updates from some entry on and contains only open steps. `state` is the run's state at
    /// that entry or later, if it is known.
    pub fn live(workflow: Option<&Arc<Workflow>>, state: Option<&State>) -> Self {
        let mut facts = StepFacts::new(workflow);
        if let Some(state) = state {
            facts.learn(state);
        }
        Self::with(facts, Scope::Live)
    }

    fn with(facts: StepFacts, scope: Scope) -> Self {
        Self { run: RunStory::default(), facts, scope, steps: BTreeMap::new(), index: BTreeMap::new() }
    }

    /// The steps, in the order in which they began.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = &StepStory> {
        self.steps.values()
    }

    pub fn into_steps(self) -> impl Iterator<Item = StepStory> {
        self.steps.into_values()
    }

    pub fn step(&self, key: &StepKey) -> Option<&StepStory> {
        self.steps.get(self.index.get(key)?)
    }

    /// The status of the run. It is exact at the end of an item, and only if the whole journal was read.
    pub fn status(&self) -> Status {
        if self.run.status != Status::Running {
            return self.run.status;
        }
        // A machine waits in its state, and its deliveries do not make it busy. Before its first state it has something
        // to do.
        if self.run.machine.is_some() {
            return Status::Waiting;
        }
        let (mut is_busy, mut waits) = (false, false);
        for step in self.steps.values().filter(|step| step.is_open()) {
            is_busy |= step.is_busy();
            waits |= step.status == StepStatus::Waiting || step.is_body();
        }
        if is_busy || !waits { Status::Running } else { Status::Waiting }
    }

    /// Whether the journal must be read from its first entry.
    pub fn is_whole(&self) -> bool {
        self.scope == Scope::Whole
    }

    /// Whether an entry is the first about its step.
    pub fn begins_step(&self, entry: &Entry) -> bool {
        entry.event.step().is_some_and(|(key, _)| !self.index.contains_key(key)) && self.admits(entry)
    }

    /// Applies the next entry. Returns the update that it causes, and those that follow from it.
    pub fn apply<'e>(&mut self, entry: &'e Entry) -> Vec<Update<'e>> {
        self.run.seq = entry.seq;
        let context = match entry.event.step() {
            Some((key, attempt)) => {
                self.facts.note(key, &entry.event);
                self.context(entry, key, attempt)
            }
            None => StepContext::default(),
        };
        match read(entry, context) {
            Some(Update::Step(update)) => self.apply_step(entry, update),
            Some(Update::Run(update)) => self.apply_run(update),
            None => Vec::new(),
        }
    }

    /// Drops the values of a step: its output, errors and logs. A reader that shows a part of the steps calls this for
    /// the others, whose values may be large.
    pub fn drop_values(&mut self, key: &StepKey) {
        if let Some(step) = self.index.get(key).and_then(|seq| self.steps.get_mut(seq)) {
            step.drop_values();
        }
    }

    /// Cancels the open steps: the run has ended with an entry that this build cannot read.
    pub fn end_unread(&mut self) {
        for step in self.steps.values_mut().filter(|step| step.is_open()) {
            let before = step.status;
            step.cancel(None, Some(before));
        }
    }

    /// The known facts about the step of an entry.
    fn context<'e>(&self, entry: &'e Entry, key: &'e StepKey, attempt: u32) -> StepContext<'e> {
        let known = self.step(key);
        let kind = self.facts.kind(key);
        // Without the workflow, a loop is recognised by its dispatch.
        let is_body = known.is_some_and(StepStory::is_body);
        StepContext {
            node: self.facts.name_of(key),
            kind: kind.map(|kind| Cow::Owned(kind.to_owned())),
            since: known.and_then(|step| step.began_at(attempt)).or_else(|| self.facts.began_at(entry)),
            due: known.and_then(|step| step.due).or_else(|| self.facts.sleeps_until(key)),
            timer: Some(if is_body { TimerPurpose::Pace } else { timer(kind) }),
        }
    }

    /// Whether an unknown step may begin with an entry.
    fn admits(&self, entry: &Entry) -> bool {
        match self.scope {
            Scope::Whole | Scope::Live => true,
            Scope::Page => match &entry.event {
                Event::StepDispatched { attempt, .. } => *attempt == 1,
                Event::StepSkipped { .. } => self.facts.skips_unbegun_steps(),
                // A later attempt repeats the timer.
                Event::TimerSet { attempt, why: TimerPurpose::After, .. } => *attempt == 1,
                Event::RunStarted { .. }
                | Event::StepCompleted { .. }
                | Event::StepFailed { .. }
                | Event::TimerSet { .. }
                | Event::TimerFired { .. }
                | Event::TransitionApplied(_)
                | Event::VoteCast(_)
                | Event::Assigned(_)
                | Event::ContextSet { .. }
                | Event::WaitOpened { .. }
                | Event::WaitResolved { .. }
                | Event::SignalBuffered { .. }
                | Event::TurnStarted { .. }
                | Event::TurnLost { .. }
                | Event::RunPaused { .. }
                | Event::RunResumed
                | Event::RunRetried
                | Event::RunCompleted { .. }
                | Event::RunFailed { .. }
                | Event::RunCancelled { .. } => false,
            },
        }
    }

    fn apply_step<'e>(&mut self, entry: &'e Entry, update: StepUpdate<'e>) -> Vec<Update<'e>> {
        let is_known = self.index.contains_key(&update.step) || self.admits(entry);
        let mut may_be_body = true;
        if is_known {
            let first_seq = *self.index.entry(update.step.clone()).or_insert(update.seq);
            let step = self.steps.entry(first_seq).or_insert_with(|| StepStory::new(&update));
            may_be_body = step.is_body() || first_seq == update.seq;
            step.apply(&update);
        }
        let mut derived = Vec::new();
        if update.change.is_end() && may_be_body {
            derived = self.leave(&update);
            for step in derived.iter().filter_map(Update::step) {
                // If the failure was not handled, a retry of the run reopens the step.
                if self.step(step).is_some_and(|step| step.reopens.is_none()) {
                    self.forget(step);
                }
            }
        }
        if update.change.is_end() || update.change == StepChange::Skipped {
            self.forget(&update.step);
        }
        let own = is_known.then_some(Update::Step(update));
        own.into_iter().chain(derived).collect()
    }

    /// Removes an ended step, if the story contains only open ones.
    pub(super) fn forget(&mut self, key: &StepKey) {
        if self.scope == Scope::Live
            && let Some(seq) = self.index.remove(key)
        {
            self.steps.remove(&seq);
        }
    }

    fn apply_run<'e>(&mut self, update: RunUpdate<'e>) -> Vec<Update<'e>> {
        let failed_step = self.run.failed_step.clone();
        self.run.apply(&update);
        let derived = match update.change {
            RunChange::Completed | RunChange::Failed | RunChange::Cancelled => self.cancel_open(update.seq, update.at),
            RunChange::Moved => self.leave_state(update.seq, update.at),
            RunChange::Retried => self.reopen(update.seq, update.at, failed_step.as_ref()),
            RunChange::Started
            | RunChange::TurnStarted
            | RunChange::TurnLost
            | RunChange::Voted
            | RunChange::Assigned
            | RunChange::Paused
            | RunChange::Resumed => Vec::new(),
        };
        std::iter::once(Update::Run(update)).chain(derived).collect()
    }
}
