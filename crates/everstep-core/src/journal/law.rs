//! The laws that every committed journal obeys. Tests and the simulator check them.
//!
//! **Invariant**: settling a committed journal again adds nothing, unless the run is paused, or its last item was full or
//! ended because its decision had used its fuel.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::machine_law::MachineLaws;
use super::{Dispatch, Entry, Event, Kind};
use crate::actor::Actor;
use crate::evaluate::Evaluate;
use crate::ids::{EventId, RunId};
use crate::limits;
use crate::meter::Meter;
use crate::run::{Cx, State, decide, keys};
use crate::style;
use crate::time::Timestamp;
use crate::workflow::Workflow;

/// Checks a journal whose last item is committed, and returns its state.
///
/// 1. Its entries are numbered from 1 without a gap, and their times never decrease.
/// 2. No step is dispatched, completed or failed twice under one attempt, and none completes twice.
/// 3. No entry follows the end of a run, except the retry of a failed one.
/// 4. The journal fits its workflow, and the counts of the fold equal the counts found by visiting everything.
/// 5. Settling it again adds nothing, unless it is paused, or its last item was full or had used its fuel (`has_more`).
/// 6. No two dispatches start the same child, or are the same delivery; only the attempts of one delivery start the same
///    child.
/// 7. No idempotency key is recorded twice within the keys that a run remembers: of a signal or control for the run, of a
///    request to a machine for its caller. No event is taken twice.
/// 8. Turns are numbered from 1 without a gap, and only the last one can be lost.
/// 9. The entries of a machine obey its own laws ([`MachineLaws`]).
pub fn check(
    run: RunId,
    workflow: &Workflow,
    journal: &[Entry],
    evaluate: &dyn Evaluate,
    has_more: bool,
) -> Result<State, String> {
    let mut seen = BTreeSet::new();
    let mut completed = BTreeSet::new();
    let mut children = BTreeSet::new();
    let mut deliveries = BTreeMap::new();
    let mut keys = KeyLaw::default();
    let mut machine = MachineLaws::default();
    let mut end = None;
    let mut turns = 0;
    for (index, entry) in journal.iter().enumerate() {
        if entry.seq != index as u64 + 1 {
            return Err(format!("entry {} is at position {}", entry.seq, index + 1));
        }
        if index > 0 && entry.at < journal[index - 1].at {
            return Err(format!("entry {} is earlier than the one before it", entry.seq));
        }
        if let Event::StepDispatched { step, dispatch: Dispatch::Child(child), .. } = &entry.event
            && deliveries.get(&child.run.uuid()) != Some(step)
            && !children.insert(child.run.uuid())
        {
            return Err(format!("entry {}: the child {} is started twice", entry.seq, child.run));
        }
        if let Event::StepDispatched { step, dispatch: Dispatch::Delivery(delivery), .. } = &entry.event {
            if !children.insert(delivery.id.uuid()) {
                return Err(format!("entry {}: the delivery {} is decided twice", entry.seq, delivery.id));
            }
            deliveries.insert(delivery.id.uuid(), step.clone());
        }
        keys.check(entry)?;
        machine.check(entry)?;
        let turn = match entry.event {
            Event::TurnStarted { turn, .. } => Some((turn, turn == turns + 1)),
            Event::TurnLost { turn } => Some((turn, turn == turns && turn > 0)),
            Event::RunStarted { .. }
            | Event::StepDispatched { .. }
            | Event::StepCompleted { .. }
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::TimerSet { .. }
            | Event::TimerFired { .. }
            | Event::WaitOpened { .. }
            | Event::WaitResolved { .. }
            | Event::SignalBuffered { .. }
            | Event::TransitionApplied(_)
            | Event::VoteCast(_)
            | Event::Assigned(_)
            | Event::ContextSet { .. }
            | Event::RunPaused { .. }
            | Event::RunResumed
            | Event::RunRetried
            | Event::RunCompleted { .. }
            | Event::RunFailed { .. }
            | Event::RunCancelled { .. } => None,
        };
        if let Some((turn, is_next)) = turn {
            if !is_next {
                return Err(format!("entry {}: turn {turn} after turn {turns}", entry.seq));
            }
            turns = turn;
        }
        let kind = entry.event.kind();
        match end {
            Some(Kind::RunFailed) if kind == Kind::RunRetried => end = None,
            Some(end) => return Err(format!("entry {}: {} after {}", entry.seq, kind.name(), end.name())),
            None if matches!(kind, Kind::RunCompleted | Kind::RunFailed | Kind::RunCancelled) => end = Some(kind),
            None => {}
        }
        if let (Some((step, _)), Kind::StepCompleted) = (entry.event.step(), kind)
            && !completed.insert(step.clone())
        {
            return Err(format!("entry {}: {step} completes twice", entry.seq));
        }
        if let (Some((step, attempt)), Kind::StepDispatched | Kind::StepCompleted | Kind::StepFailed) =
            (entry.event.step(), kind)
            && !seen.insert((step.clone(), attempt, kind))
        {
            return Err(format!("entry {}: {} {step} #{attempt} is recorded twice", entry.seq, kind.name()));
        }
    }
    let state = State::fold(run, workflow, journal).map_err(|error| error.to_string())?;
    style::check_counts(workflow, &state)?;
    if !has_more {
        let cx = Cx { now: state.updated_at, evaluate, meter: &Meter::new() };
        let more = decide::settle(workflow, &mut state.clone(), cx);
        if !more.is_empty() {
            return Err(format!("settling again adds {more:?}"));
        }
    }
    Ok(state)
}

/// Law 7.
#[derive(Default)]
struct KeyLaw {
    events: BTreeSet<EventId>,
    controls: VecDeque<Arc<str>>,
    acts: VecDeque<(Actor, Arc<str>, Timestamp)>,
}

impl KeyLaw {
    fn check(&mut self, entry: &Entry) -> Result<(), String> {
        let Some(key) = &entry.key else { return Ok(()) };
        if let Some(event) = keys::taken_event(entry) {
            let is_new = self.events.insert(event);
            return if is_new { Ok(()) } else { Err(format!("entry {}: the event {event} is taken twice", entry.seq)) };
        }
        let actor = match &entry.event {
            Event::TransitionApplied(applied) => Some(&applied.by),
            Event::VoteCast(vote) => Some(&vote.by),
            Event::Assigned(assigned) => Some(&assigned.by),
            Event::RunStarted { .. }
            | Event::StepDispatched { .. }
            | Event::StepCompleted { .. }
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::TimerSet { .. }
            | Event::TimerFired { .. }
            | Event::WaitOpened { .. }
            | Event::WaitResolved { .. }
            | Event::SignalBuffered { .. }
            | Event::TurnStarted { .. }
            | Event::TurnLost { .. }
            | Event::ContextSet { .. }
            | Event::RunPaused { .. }
            | Event::RunResumed
            | Event::RunRetried
            | Event::RunCompleted { .. }
            | Event::RunFailed { .. }
            | Event::RunCancelled { .. } => None,
        };
        let is_known = match actor {
            None => self.controls.contains(key),
            Some(actor) => {
                let day = Duration::from_hours(limits::REMEMBERED_HOURS);
                let is_live = |at: Timestamp| entry.at.since(at) < day;
                self.acts.iter().any(|(by, known, at)| by == actor && known == key && is_live(*at))
            }
        };
        if is_known {
            return Err(format!("entry {}: the key {key:?} is recorded twice", entry.seq));
        }
        match actor {
            None => self.controls.push_back(Arc::clone(key)),
            Some(actor) => self.acts.push_back((actor.clone(), Arc::clone(key), entry.at)),
        }
        if self.controls.len() > limits::REMEMBERED_KEYS {
            self.controls.pop_front();
        }
        if self.acts.len() > limits::REMEMBERED_ACTS {
            self.acts.pop_front();
        }
        Ok(())
    }
}
