//! Idempotency keys: a request that was accepted under a key is not applied twice.
//!
//! 1. Signals, controls and requests to a machine may have a key; the entry that they write contains it.
//! 2. If the same key was accepted with the same kind of signal or control, nothing is written.
//! 3. The same key with another kind of signal or control is rejected.
//! 4. A run remembers the last [`limits::REMEMBERED_KEYS`] keys of signals and controls, also after its end.
//! 5. A key of a request to a machine belongs to the caller: an equal key of another caller is another request. The
//!    same request under the same key receives the first answer again; another request is rejected. A run remembers
//!    the last [`limits::REMEMBERED_ACTS`] of them, for [`limits::REMEMBERED_HOURS`] hours.
//! 6. A rejected request leaves no key.
//! 7. The key of a published event is its id. The first entry that the event causes contains it.
//! 8. A run takes an event at most once: it remembers all events that it has taken, beside the other keys. A wait that
//!    looks back leaves out exactly these. A shorter memory would not be exact: the last keys forget, and the position of
//!    the last event that was taken says nothing about older ones, which another match may need. The number of entries of
//!    a journal bounds the number of events.
//! 9. A run that has not begun has no entries: its row contains the keys of its pauses and resumptions, of which it
//!    remembers the last [`limits::REMEMBERED_HOLDS`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::key_ring::{KeyRecord, KeyRing};
use super::{Input, Reply, State};
use crate::actor::Actor;
use crate::ids::EventId;
use crate::journal::{Entry, Event, Outcome, Resolution};
use crate::limits;
use crate::machine::{Applied, refuse_reused_key};
use crate::time::Timestamp;
use crate::topics::EventRef;

/// The kinds of signals and controls that may have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Keyed {
    Signal,
    SetContext,
    Pause,
    Resume,
    Cancel,
    Retry,
}

/// The kind of input that a key belongs to.
enum Owner<'a> {
    Control(Keyed),
    Event(EventId),
    /// A request of a caller to a machine, by its digest.
    Act(&'a Actor, &'a str),
}

impl<'a> Owner<'a> {
    fn of_input(input: &'a Input) -> Option<Self> {
        match input {
            Input::Signal { .. } | Input::BufferedSignal { .. } => Some(Self::Control(Keyed::Signal)),
            Input::Event { event, .. } => Some(Self::Event(event.id)),
            Input::SetContext { .. } => Some(Self::Control(Keyed::SetContext)),
            Input::Pause { .. } => Some(Self::Control(Keyed::Pause)),
            Input::Resume => Some(Self::Control(Keyed::Resume)),
            Input::Cancel { .. } => Some(Self::Control(Keyed::Cancel)),
            Input::Retry => Some(Self::Control(Keyed::Retry)),
            Input::Transition(act) => Some(Self::Act(&act.by, &act.digest)),
            Input::Assign(assignment) => Some(Self::Act(&assignment.by, &assignment.digest)),
            Input::Start { .. }
            | Input::Result { .. }
            | Input::TaskLost { .. }
            | Input::Timer { .. }
            | Input::ChildEnded { .. }
            | Input::ChildStarted { .. }
            | Input::BeginTurn { .. }
            | Input::LoseTurn { .. }
            | Input::Report { .. }
            | Input::Fail { .. }
            | Input::Settle => None,
        }
    }

    /// The kind of input that wrote an entry under a key.
    fn of_entry(entry: &'a Entry, key: &str) -> Option<Self> {
        let act = |by, request: &'a Option<String>| Some(Self::Act(by, request.as_deref()?));
        match &entry.event {
            Event::StepCompleted { outcome: Outcome { event: Some(event), .. }, .. } => Some(Self::Event(event.id)),
            Event::WaitResolved { by: Resolution::Event { event, .. }, .. } => Some(Self::Event(event.id)),
            // The entry of a step that fails names no event: its key does.
            Event::StepFailed { .. } => {
                Some(EventRef::id_of_key(key).map_or(Self::Control(Keyed::Signal), Self::Event))
            }
            Event::StepCompleted { .. } | Event::WaitResolved { .. } | Event::SignalBuffered { .. } => {
                Some(Self::Control(Keyed::Signal))
            }
            Event::ContextSet { .. } => Some(Self::Control(Keyed::SetContext)),
            Event::RunPaused { .. } => Some(Self::Control(Keyed::Pause)),
            Event::RunResumed => Some(Self::Control(Keyed::Resume)),
            Event::RunCancelled { .. } => Some(Self::Control(Keyed::Cancel)),
            Event::RunRetried => Some(Self::Control(Keyed::Retry)),
            Event::TransitionApplied(applied) => act(&applied.by, &applied.request),
            Event::VoteCast(vote) => act(&vote.by, &vote.request),
            Event::Assigned(assigned) => act(&assigned.by, &assigned.request),
            Event::RunStarted { .. }
            | Event::StepDispatched { .. }
            | Event::StepSkipped { .. }
            | Event::TimerSet { .. }
            | Event::TimerFired { .. }
            | Event::WaitOpened { .. }
            | Event::TurnStarted { .. }
            | Event::TurnLost { .. }
            | Event::RunCompleted { .. }
            | Event::RunFailed { .. } => None,
        }
    }
}

impl Keyed {
    fn name(self) -> &'static str {
        match self {
            Self::Signal => "a signal",
            Self::SetContext => "values for the context",
            Self::Pause => "a pause",
            Self::Resume => "a resume",
            Self::Cancel => "a cancellation",
            Self::Retry => "a retry",
        }
    }
}

impl KeyRecord for Keyed {
    fn weight(&self) -> usize {
        0
    }
}

/// A request to a machine that was accepted under a key, with its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ActRecord {
    by: Actor,
    digest: String,
    answer: Applied,
}

impl ActRecord {
    fn has_expired(&self, now: Timestamp) -> bool {
        now.since(self.answer.at) >= Duration::from_hours(limits::REMEMBERED_HOURS)
    }
}

impl KeyRecord for ActRecord {
    fn weight(&self) -> usize {
        let votes = self.answer.votes.as_ref().map_or(0, |votes| 64 * (votes.by.len() + 1));
        256 + self.by.id.len() + self.digest.len() + votes
    }
}

/// The last keys of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Keys {
    #[serde(default, skip_serializing_if = "KeyRing::is_empty")]
    controls: KeyRing<Keyed>,
    #[serde(default, skip_serializing_if = "KeyRing::is_empty")]
    acts: KeyRing<ActRecord>,
    /// The events that the run has taken.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    events: BTreeSet<EventId>,
}

/// The memory of an event that a run has taken.
const EVENT_WEIGHT: usize = 32;

impl Keys {
    pub(crate) fn is_empty(&self) -> bool {
        self.controls.is_empty() && self.acts.is_empty() && self.events.is_empty()
    }

    pub(crate) fn weight(&self) -> usize {
        self.controls.weight() + self.acts.weight() + EVENT_WEIGHT * self.events.len()
    }

    /// The events that the run has taken, from an id on.
    pub(crate) fn events_from(&self, first: EventId) -> impl Iterator<Item = EventId> {
        self.events.range(first..).copied()
    }

    pub(crate) fn forget_acts(&mut self) {
        self.acts = KeyRing::default();
    }

    /// Folds an entry. `answer` is the answer to the last request to a machine, if the run is one of a machine.
    pub(crate) fn apply(&mut self, entry: &Entry, answer: Option<&Applied>) -> Result<(), &'static str> {
        if let Some(answer) = answer {
            self.acts.change_newest(|record| {
                // The transitions that follow in the item of a request are part of its answer.
                if record.answer.seq == answer.seq {
                    record.answer.clone_from(answer);
                }
            });
        }
        let Some(key) = &entry.key else { return Ok(()) };
        match Owner::of_entry(entry, key).ok_or("an entry of this kind has no key")? {
            Owner::Event(event) => _ = self.events.insert(event),
            Owner::Control(kind) => self.controls.remember(Arc::clone(key), kind, limits::REMEMBERED_KEYS),
            Owner::Act(by, digest) => {
                let answer = answer.filter(|answer| answer.seq == entry.seq).ok_or("the request has no answer")?;
                let record = ActRecord { by: by.clone(), digest: digest.to_owned(), answer: answer.clone() };
                self.acts.drop_expired(|record| record.has_expired(entry.at));
                self.acts.remember(Arc::clone(key), record, limits::REMEMBERED_ACTS);
            }
        }
        Ok(())
    }
}

/// The event that an entry takes, if it is the first entry of that event.
pub(crate) fn taken_event(entry: &Entry) -> Option<EventId> {
    match Owner::of_entry(entry, entry.key.as_deref()?)? {
        Owner::Event(event) => Some(event),
        Owner::Control(_) | Owner::Act(..) => None,
    }
}

/// The key of a pause or a resumption of a run that had not begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldKey {
    key: String,
    kind: Keyed,
}

/// Adds the key of a pause or a resumption to those that a run without a journal remembers.
pub fn remember_hold(holds: &mut Vec<HoldKey>, input: &Input, key: &str) {
    let Some(Owner::Control(kind)) = Owner::of_input(input) else { return };
    holds.push(HoldKey { key: key.to_owned(), kind });
    let forgotten = holds.len().saturating_sub(limits::REMEMBERED_HOLDS);
    holds.drain(..forgotten);
}

/// The reply to a key under which a run was paused or resumed before it began; `None` if the key is new.
pub fn answer_held(holds: &[HoldKey], input: &Input, key: &str) -> Option<Reply> {
    if let Some(refusal) = refuse_length(key) {
        return Some(refusal);
    }
    let Some(Owner::Control(kind)) = Owner::of_input(input) else { return None };
    let known = holds.iter().find(|hold| hold.key == key)?;
    Some(answer_known(known.kind, kind))
}

/// The reply of a run to a key, before it examines the input itself; `None` if the key is new.
pub fn answer(state: &State, input: &Input, key: &str, now: Timestamp) -> Option<Reply> {
    if let Some(refusal) = refuse_length(key) {
        return Some(refusal);
    }
    let Some(owner) = Owner::of_input(input) else {
        let message = "only signals, controls and requests to a machine have an idempotency key";
        return Some(Reply::refused("VALIDATION_ERROR", message));
    };
    match owner {
        Owner::Control(kind) => {
            let known = *state.keys.controls.find(key, |_| true)?;
            Some(answer_known(known, kind))
        }
        Owner::Event(event) => state.keys.events.contains(&event).then_some(Reply::Repeated),
        Owner::Act(by, digest) => {
            let known = state.keys.acts.find(key, |record| record.by == *by && !record.has_expired(now))?;
            if known.digest == digest {
                return Some(Reply::Applied(Box::new(Applied { repeated: true, ..known.answer.clone() })));
            }
            Some(refuse_reused_key(state, by))
        }
    }
}

fn refuse_length(key: &str) -> Option<Reply> {
    if (1..=limits::KEY_CHARS).contains(&key.chars().count()) {
        return None;
    }
    let message = format!("an idempotency key has 1 to {} characters", limits::KEY_CHARS);
    Some(Reply::refused("VALIDATION_ERROR", message))
}

/// The reply to a signal or control whose key is known.
fn answer_known(known: Keyed, kind: Keyed) -> Reply {
    if known == kind {
        return Reply::Repeated;
    }
    let message =
        format!("this idempotency key was used for {} before, not for {}; use a new key", known.name(), kind.name());
    Reply::refused("IDEMPOTENCY_KEY_REUSED", message)
}
