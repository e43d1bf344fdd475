//! The open steps of a run: those that were dispatched and are not settled.
//!
//! **Invariant**: the sets and counts beside the steps follow from the steps. Only the methods here change them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::child::{Child, Children};
use super::delivery::{DeadDelivery, Deliveries, OpenDelivery};
use super::input::Reply;
use crate::contains;
use crate::failure::{Failure, code};
use crate::ids::{RunId, StepKey};
use crate::journal::{Dispatch, Entry};
use crate::meter::Meter;
use crate::payload::Payload;
use crate::status::StepStatus;
use crate::time::Timestamp;

/// Waits that the reply to an ignored signal names.
const SUGGESTED_WAITS_MAX: usize = 5;
/// Characters of a match in such a reply.
const EXCERPT_CHARS_MAX: usize = 500;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenSteps {
    steps: BTreeMap<StepKey, Open>,
    /// Open steps that must be retried or dispatched again.
    todo: BTreeSet<StepKey>,
    timers: BTreeSet<(Timestamp, StepKey)>,
    /// The number of open steps that are tasks.
    tasks: usize,
    #[serde(default, skip_serializing_if = "Children::are_none")]
    children: Children,
    #[serde(default, skip_serializing_if = "Deliveries::are_none")]
    deliveries: Deliveries,
}

/// A step in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Open {
    pub(crate) attempt: u32,
    /// Failed attempts so far.
    pub(crate) failures: u32,
    /// Consecutive dispatches that ended without a result.
    pub(crate) crashes: u32,
    pub(crate) activity: Activity,
    pub(crate) timer: Option<Timestamp>,
    /// The delay that the last failure demands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<u32>,
    /// When the current activity began.
    pub(crate) since: Timestamp,
    /// The side effect that the step performs, whatever its activity is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delivery: Option<Box<OpenDelivery>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Activity {
    Task,
    Instant,
    Delay,
    Wait {
        event: String,
        pattern: Payload,
        /// Whether the wait names an event of a topic; otherwise only signals resolve it.
        by_topic: bool,
        /// The wait also accepts events that were published from this time on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<Timestamp>,
    },
    Child(Arc<Child>),
    Body,
    /// An attempt failed and another is allowed: a timer must be set.
    Failed,
    /// The timer of a retry is set.
    Backoff,
    /// The step must be dispatched again.
    Again,
}

impl Activity {
    /// The signal that a wait expects, and the pattern that its payload must contain.
    pub(crate) fn awaited(&self) -> Option<(&str, &Payload)> {
        match self {
            Self::Wait { event, pattern, .. } => Some((event, pattern)),
            Self::Task
            | Self::Instant
            | Self::Delay
            | Self::Child(_)
            | Self::Body
            | Self::Failed
            | Self::Backoff
            | Self::Again => None,
        }
    }

    /// Whether it is a wait that this signal resolves. The waits of a run are compared within the fuel of one part of a
    /// decision: a wait beyond it is not resolved.
    pub(crate) fn awaits(&self, signal: &str, payload: &Payload, meter: &Meter) -> bool {
        let is_match = |pattern: &Payload| contains::matches_within(payload, pattern, meter);
        self.awaited().is_some_and(|(event, pattern)| event == signal && is_match(pattern))
    }

    /// Whether it is a wait that an event of this topic resolves. Each comparison is a part of its own: the store has
    /// found the wait with the fuel of a part, and the result must be the same here however many waits are open.
    pub(crate) fn awaits_event(&self, topic: &str, data: &Payload, meter: &Meter) -> bool {
        match self {
            Self::Wait { by_topic: true, .. } => {
                meter.begin_part();
                self.awaits(topic, data, meter)
            }
            Self::Wait { by_topic: false, .. }
            | Self::Task
            | Self::Instant
            | Self::Delay
            | Self::Child(_)
            | Self::Body
            | Self::Failed
            | Self::Backoff
            | Self::Again => false,
        }
    }

    pub(crate) fn step_status(&self) -> StepStatus {
        match self {
            Self::Task | Self::Instant | Self::Body | Self::Failed | Self::Again => StepStatus::Running,
            Self::Delay | Self::Wait { .. } | Self::Child(_) | Self::Backoff => StepStatus::Waiting,
        }
    }
}

/// An open step, as callers see it.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenStep<'a> {
    pub step: &'a StepKey,
    pub attempt: u32,
    /// When its current activity began.
    pub since: Timestamp,
    pub activity: OpenActivity<'a>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum OpenActivity<'a> {
    /// A handler must be performing it.
    Task,
    /// It waits for a signal, or for an event of a topic.
    Wait {
        event: &'a str,
        pattern: &'a Payload,
        due: Option<Timestamp>,
        /// Whether an event of a topic resolves it too.
        by_topic: bool,
        /// It also accepts events that were published from this time on.
        since: Option<Timestamp>,
    },
    /// A run that must exist. [`super::State::parent_of`] is the parent that it is started with.
    Child(&'a Child),
    /// It completes at a time.
    Delay { due: Option<Timestamp> },
    /// It failed and is retried at a time.
    Backoff { due: Option<Timestamp> },
    /// A loop or scope: steps inside it are in progress, or its next item waits for a time.
    Body { due: Option<Timestamp> },
    /// It continues at once.
    Soon,
}

/// The purpose of a timer that fired.
pub(crate) enum Fired {
    /// The step is dispatched again.
    Retry,
    /// The next item of a loop may begin.
    Pace,
}

impl Open {
    pub(crate) fn new(attempt: u32, activity: Activity, timer: Option<Timestamp>, since: Timestamp) -> Self {
        Self { attempt, failures: 0, crashes: 0, activity, timer, retry_after_ms: None, since, delivery: None }
    }

    fn show<'a>(&'a self, step: &'a StepKey) -> OpenStep<'a> {
        let due = self.timer;
        let activity = match &self.activity {
            Activity::Task => OpenActivity::Task,
            Activity::Wait { event, pattern, by_topic, since } => {
                OpenActivity::Wait { event, pattern, due, by_topic: *by_topic, since: *since }
            }
            Activity::Child(child) => OpenActivity::Child(child),
            Activity::Delay => OpenActivity::Delay { due },
            Activity::Backoff => OpenActivity::Backoff { due },
            Activity::Body => OpenActivity::Body { due },
            Activity::Instant | Activity::Failed | Activity::Again => OpenActivity::Soon,
        };
        OpenStep { step, attempt: self.attempt, since: self.since, activity }
    }

    /// The child that this attempt of a run's own step started. A fork does not own the children of its original.
    pub(crate) fn own_child(&self, run: RunId, step: &StepKey) -> Option<&Arc<Child>> {
        match &self.activity {
            // A delivery has the same id for all its attempts.
            Activity::Child(child) if self.delivery.is_some() => Some(child),
            Activity::Child(child) if child.is_of(run, step, self.attempt) => Some(child),
            Activity::Child(_)
            | Activity::Task
            | Activity::Instant
            | Activity::Delay
            | Activity::Wait { .. }
            | Activity::Body
            | Activity::Failed
            | Activity::Backoff
            | Activity::Again => None,
        }
    }
}

impl OpenSteps {
    pub(crate) fn get(&self, step: &StepKey) -> Option<&Open> {
        self.steps.get(step)
    }

    pub(crate) fn contains(&self, step: &StepKey) -> bool {
        self.steps.contains_key(step)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&StepKey, &Open)> {
        self.steps.iter()
    }

    pub(crate) fn show(&self) -> impl Iterator<Item = OpenStep<'_>> {
        self.steps.iter().map(|(step, open)| open.show(step))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    pub(crate) fn has_tasks(&self) -> bool {
        self.tasks > 0
    }

    /// The number of open steps that are tasks.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks
    }

    pub(crate) fn has_todo(&self) -> bool {
        !self.todo.is_empty()
    }

    pub(crate) fn has_deliveries(&self) -> bool {
        self.deliveries.has_open()
    }

    /// The open deliveries, with their steps.
    pub(crate) fn deliveries(&self) -> impl Iterator<Item = (&StepKey, &Open, &OpenDelivery)> {
        let has_open = self.deliveries.has_open();
        let steps = self.steps.iter().filter(move |_| has_open);
        steps.filter_map(|(step, open)| Some((step, open, open.delivery.as_deref()?)))
    }

    /// The deliveries that entries from `seq` on have made dead.
    pub(crate) fn dead_since(&self, seq: u64) -> &[DeadDelivery] {
        self.deliveries.dead_since(seq)
    }

    /// The steps that must be retried or dispatched again.
    pub(crate) fn todo(&self) -> impl Iterator<Item = &StepKey> {
        self.todo.iter()
    }

    /// The first step that must be retried or dispatched again.
    pub(crate) fn first_todo(&self) -> Option<&StepKey> {
        self.todo.first()
    }

    pub(crate) fn first_timer(&self) -> Option<&(Timestamp, StepKey)> {
        self.timers.first()
    }

    /// The first timer that is not the delay before another attempt of a delivery.
    pub(crate) fn first_timer_of_state(&self) -> Option<&(Timestamp, StepKey)> {
        let is_of_state = |step: &StepKey| self.steps.get(step).is_some_and(|open| open.delivery.is_none());
        self.timers.iter().find(|(_, step)| is_of_state(step))
    }

    /// The timers that are due, as `(step, attempt)`.
    pub(crate) fn due(&self, now: Timestamp) -> Vec<(StepKey, u32)> {
        let due = self.timers.iter().take_while(|(due, _)| *due <= now);
        due.filter_map(|(_, step)| self.steps.get(step).map(|open| (step.clone(), open.attempt))).collect()
    }

    pub(crate) fn has_children(&self) -> bool {
        self.children.has_open()
    }

    /// Children that no step has waited for since an entry.
    pub(crate) fn left_since(&self, seq: u64) -> &[(u64, RunId)] {
        self.children.left_since(seq)
    }

    /// Removes the children that entries of an earlier time stopped waiting for, and the deliveries that they made dead:
    /// the items with those entries cancelled the children, and wrote the dead letters.
    pub(crate) fn forget_left(&mut self) {
        self.children.forget_left();
        self.deliveries.forget_dead();
    }

    /// The reply to a signal that no open wait accepts. It names the match that the waits for this signal expect, or
    /// the signals that the run waits for.
    pub(crate) fn ignore_signal(&self, signal: &str) -> Reply {
        let waits = || self.steps.iter().filter_map(|(step, open)| Some((step, open.activity.awaited()?)));
        let expected: Vec<_> = waits()
            .filter(|(_, (event, _))| *event == signal)
            .take(SUGGESTED_WAITS_MAX)
            .map(|(step, (_, pattern))| format!("step {:?} expects {}", step.as_str(), excerpt(pattern.json())))
            .collect();
        if !expected.is_empty() {
            let expected = expected.join("; ");
            return Reply::Ignored(format!("a wait for this signal exists, but its match differs: {expected}").into());
        }
        let awaited: BTreeSet<_> = waits().map(|(_, (event, _))| event).collect();
        if awaited.is_empty() {
            return Reply::ignored("no wait for this signal is open");
        }
        let names: Vec<_> = awaited.iter().take(SUGGESTED_WAITS_MAX).map(|name| format!("{name:?}")).collect();
        let others = awaited.len() - names.len();
        let others = if others > 0 { format!(" and {others} more") } else { String::new() };
        let names = names.join(", ");
        Reply::Ignored(format!("no wait for this signal is open; the run waits for {names}{others}").into())
    }

    /// The approximate memory of the steps, in bytes.
    pub(crate) fn weight(&self) -> usize {
        160 * self.steps.len() + self.children.weight() + self.deliveries.weight()
    }

    /// Opens a step that is not open.
    pub(crate) fn insert(&mut self, step: StepKey, open: Open) {
        self.tasks += usize::from(open.activity == Activity::Task);
        if let Activity::Child(child) = &open.activity {
            self.children.open(child);
        }
        if let Some(delivery) = &open.delivery {
            self.deliveries.open(delivery);
        }
        if let Some(due) = open.timer {
            self.timers.insert((due, step.clone()));
        }
        if matches!(open.activity, Activity::Failed | Activity::Again) {
            self.todo.insert(step.clone());
        }
        self.steps.insert(step, open);
    }

    /// Removes an open step with its timer.
    pub(crate) fn close(&mut self, step: &StepKey) -> Option<Open> {
        let open = self.steps.remove(step)?;
        self.tasks -= usize::from(open.activity == Activity::Task);
        if let Activity::Child(child) = &open.activity {
            self.children.close(child);
        }
        if let Some(delivery) = &open.delivery {
            self.deliveries.close(delivery);
        }
        if let Some(due) = open.timer {
            self.timers.remove(&(due, step.clone()));
        }
        self.todo.remove(step);
        Some(open)
    }

    /// Opens a step that was dispatched, or dispatched again.
    ///
    /// `by_topic` states whether a wait names an event of a topic.
    pub(crate) fn dispatch(
        &mut self,
        run: RunId,
        (step, attempt): (&StepKey, u32),
        dispatch: &Dispatch,
        by_topic: bool,
        at: Timestamp,
    ) {
        let (activity, timer) = match dispatch {
            Dispatch::Task | Dispatch::Delivery(_) => (Activity::Task, None),
            Dispatch::Instant | Dispatch::Publish => (Activity::Instant, None),
            Dispatch::Delay { due } => (Activity::Delay, Some(*due)),
            Dispatch::Wait { event, pattern, due, since } => {
                let (event, pattern) = (event.clone(), pattern.clone());
                (Activity::Wait { event, pattern, by_topic, since: *since }, *due)
            }
            Dispatch::Child(child) => (Activity::Child(Arc::clone(child)), child.due),
            Dispatch::Body { .. } => (Activity::Body, None),
        };
        let mut before = self.close(step);
        let failures = before.as_ref().map_or(0, |open| open.failures);
        let delivery = before.as_mut().and_then(|open| open.delivery.take());
        // A dispatch that replaces an open task followed a crash.
        let crashes = before.filter(|open| open.activity == Activity::Task).map_or(0, |open| open.crashes + 1);
        // A fork performs no delivery of its original.
        let is_foreign = delivery.as_ref().is_some_and(|delivery| !delivery.is_of(run, step));
        let activity = if is_foreign { Activity::Again } else { activity };
        self.insert(step.clone(), Open { failures, crashes, delivery, ..Open::new(attempt, activity, timer, at) });
        if self.has_foreign_child(run, step) {
            self.todo.insert(step.clone());
        }
    }

    /// Opens the step of a delivery that was decided. `None` if the step is open.
    pub(crate) fn deliver(
        &mut self,
        run: RunId,
        (step, attempt): (&StepKey, u32),
        delivery: OpenDelivery,
        at: Timestamp,
    ) -> Option<()> {
        if self.contains(step) {
            return None;
        }
        let activity = match delivery.delivery.child() {
            _ if !delivery.is_of(run, step) => Activity::Again,
            Some(child) => Activity::Child(child.into()),
            None => Activity::Task,
        };
        self.insert(step.clone(), Open { delivery: Some(delivery.into()), ..Open::new(attempt, activity, None, at) });
        Some(())
    }

    /// An attempt of a delivery has failed: another one follows, or the delivery is dead. `None` if the step is not a
    /// delivery.
    pub(crate) fn fail_delivery(&mut self, run: RunId, step: &StepKey, failure: &Failure, entry: &Entry) -> Option<()> {
        self.get(step)?.delivery.as_ref()?;
        let mut open = self.close(step)?;
        open.failures += 1;
        open.crashes = 0;
        let delivery = open.delivery.as_mut()?;
        delivery.record_failure(open.since, entry.at, failure);
        if delivery.delivery.retry().delivers_again(open.failures, failure) {
            (open.activity, open.timer, open.since) = (Activity::Failed, None, entry.at);
            self.insert(step.clone(), open);
        } else if delivery.is_of(run, step) {
            self.deliveries.bury(entry.seq, step, open.attempt, open.delivery.take()?);
        }
        Some(())
    }

    /// The run ended: its own deliveries that are open are dead. Their steps stay open.
    pub(crate) fn abandon_deliveries(&mut self, run: RunId, seq: u64, at: Timestamp, reason: &str) {
        if !self.deliveries.has_open() {
            return;
        }
        for (step, open) in &self.steps {
            let Some(delivery) = open.delivery.as_ref().filter(|delivery| delivery.is_of(run, step)) else { continue };
            let mut delivery = delivery.clone();
            delivery.record_failure(at, at, &Failure::fatal(code::RUN_CANCELLED, reason));
            self.deliveries.bury(seq, step, open.attempt, delivery);
        }
    }

    /// Sets the timer of a retry. `None` if the step has no failed attempt to retry.
    pub(crate) fn back_off(&mut self, step: &StepKey, due: Timestamp) -> Option<()> {
        let open = self.steps.get_mut(step).filter(|open| open.activity == Activity::Failed)?;
        (open.activity, open.timer) = (Activity::Backoff, Some(due));
        self.timers.insert((due, step.clone()));
        self.todo.remove(step);
        Some(())
    }

    /// Sets the timer between two items of a loop. `None` if the step is not a loop, or has a timer.
    pub(crate) fn pace(&mut self, step: &StepKey, due: Timestamp) -> Option<()> {
        let open = self.steps.get_mut(step).filter(|open| open.activity == Activity::Body && open.timer.is_none())?;
        open.timer = Some(due);
        self.timers.insert((due, step.clone()));
        Some(())
    }

    /// Removes the fired timer of a retry or a loop.
    pub(crate) fn fire(&mut self, step: &StepKey) -> Option<Fired> {
        let open = self.steps.get_mut(step)?;
        let fired = match open.activity {
            Activity::Body => Fired::Pace,
            Activity::Backoff => Fired::Retry,
            Activity::Task
            | Activity::Instant
            | Activity::Delay
            | Activity::Wait { .. }
            | Activity::Child(_)
            | Activity::Failed
            | Activity::Again => return None,
        };
        let due = open.timer.take()?;
        self.timers.remove(&(due, step.clone()));
        if let Fired::Retry = fired {
            open.activity = Activity::Again;
            self.todo.insert(step.clone());
        }
        Some(fired)
    }

    /// A failed run is retried: the failure interrupted its tasks, which does not count as a crash.
    pub(crate) fn forget_crashes(&mut self) {
        for open in self.steps.values_mut() {
            open.crashes = 0;
        }
    }

    /// Whether the run of which this one is a fork opened a step, so that its child belongs to the original.
    pub(crate) fn has_foreign_child(&self, run: RunId, step: &StepKey) -> bool {
        let is_foreign =
            |open: &Open| matches!(open.activity, Activity::Child(_)) && open.own_child(run, step).is_none();
        self.steps.get(step).is_some_and(is_foreign)
    }

    /// The steps that wait for a child's end.
    pub(crate) fn waiting_for_children(&self) -> Vec<StepKey> {
        if !self.children.has_open() {
            return Vec::new();
        }
        let waits = |open: &Open| matches!(&open.activity, Activity::Child(child) if child.waits);
        self.steps.iter().filter(|(_, open)| waits(open)).map(|(step, _)| step.clone()).collect()
    }

    /// The run ended: no step waits for its children. The steps stay open for a retry.
    pub(crate) fn leave_children(&mut self, run: RunId, seq: u64) {
        if !self.children.has_open() {
            return;
        }
        for (step, open) in &self.steps {
            if let Some(child) = open.own_child(run, step) {
                self.children.leave(seq, child);
            }
        }
    }

    /// Stops waiting for the child of a step that an entry closed because the step timed out. `open` is the step before
    /// that entry.
    ///
    /// A child that ended is not cancelled, whatever the code of its failure is. The timer distinguishes the two cases:
    /// this is called only for a live run, in which a due timer fires before anything else is recorded.
    pub(crate) fn leave_late_child(&mut self, run: RunId, open: &Open, failure: &Failure, entry: &Entry) {
        if failure.code == code::STEP_TIMEOUT
            && open.timer.is_some_and(|due| due <= entry.at)
            && let Some((step, _)) = entry.event.step()
            && let Some(child) = open.own_child(run, step)
        {
            self.children.leave(entry.seq, child);
        }
    }

    /// Closes the steps whose keys begin with a prefix, and stops waiting for their children. The keys are one range.
    /// Deliveries stay open: they do not depend on the place of the run.
    pub(crate) fn drop_within(&mut self, run: RunId, prefix: &str, seq: u64) {
        let range = self.steps.range(StepKey::from(prefix)..);
        let range = range.take_while(|(step, _)| step.as_str().starts_with(prefix));
        let steps: Vec<_> = range.filter(|(_, open)| open.delivery.is_none()).map(|(step, _)| step.clone()).collect();
        for step in steps {
            let Some(open) = self.close(&step) else { continue };
            if let Some(child) = open.own_child(run, &step) {
                self.children.leave(seq, child);
            }
        }
    }
}

/// A text of bounded length, for a message.
fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
