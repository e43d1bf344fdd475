//! Idempotency keys: a request that was accepted under a key is not applied twice.
//!
//! 1. Signals and controls may have a key; the entry that they write contains it.
//! 2. If the same key was accepted with the same kind of input, nothing is written.
//! 3. The same key with another kind of input is rejected.
//! 4. A run remembers its last [`limits::REMEMBERED_KEYS`] keys, also after its end.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Input, Reply, State};
use crate::journal::Event;
use crate::limits;

/// The kinds of input that may have a key.
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

impl Keyed {
    fn of_input(input: &Input) -> Option<Self> {
        match input {
            Input::Signal { .. } | Input::BufferedSignal { .. } => Some(Self::Signal),
            Input::SetContext { .. } => Some(Self::SetContext),
            Input::Pause { .. } => Some(Self::Pause),
            Input::Resume => Some(Self::Resume),
            Input::Cancel { .. } => Some(Self::Cancel),
            Input::Retry => Some(Self::Retry),
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

    /// The kind of input that wrote an event under a key.
    pub(crate) fn of_event(event: &Event) -> Option<Self> {
        match event {
            Event::StepCompleted { .. }
            | Event::StepFailed { .. }
            | Event::WaitResolved { .. }
            | Event::SignalBuffered { .. } => Some(Self::Signal),
            Event::ContextSet { .. } => Some(Self::SetContext),
            Event::RunPaused { .. } => Some(Self::Pause),
            Event::RunResumed => Some(Self::Resume),
            Event::RunCancelled { .. } => Some(Self::Cancel),
            Event::RunRetried => Some(Self::Retry),
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

/// The last keys of a run, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Keys {
    list: VecDeque<(Keyed, Arc<str>)>,
    /// The approximate memory of the keys.
    bytes: usize,
}

impl Keys {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn weight(&self) -> usize {
        self.bytes
    }

    pub(crate) fn remember(&mut self, kind: Keyed, key: Arc<str>) {
        self.bytes += weight(&key);
        self.list.push_back((kind, key));
        if self.list.len() > limits::REMEMBERED_KEYS
            && let Some((_, oldest)) = self.list.pop_front()
        {
            self.bytes -= weight(&oldest);
        }
    }

    fn find(&self, key: &str) -> Option<Keyed> {
        self.list.iter().find(|(_, known)| &**known == key).map(|(kind, _)| *kind)
    }
}

fn weight(key: &str) -> usize {
    40 + key.len()
}

/// The reply of a run to a key, before it examines the input itself; `None` if the key is new.
pub fn answer(state: &State, input: &Input, key: &str) -> Option<Reply> {
    if !(1..=limits::KEY_CHARS).contains(&key.chars().count()) {
        let message = format!("an idempotency key has 1 to {} characters", limits::KEY_CHARS);
        return Some(Reply::refused("VALIDATION_ERROR", message));
    }
    let Some(kind) = Keyed::of_input(input) else {
        return Some(Reply::refused("VALIDATION_ERROR", "only signals and controls have an idempotency key"));
    };
    match state.keys.find(key)? {
        known if known == kind => Some(Reply::Repeated),
        known => {
            let message = format!(
                "this idempotency key was used for {} before, not for {}; use a new key",
                known.name(),
                kind.name()
            );
            Some(Reply::refused("IDEMPOTENCY_KEY_REUSED", message))
        }
    }
}
