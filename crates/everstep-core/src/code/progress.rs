//! The progress of a code workflow's run: the content of its journal about its steps.
//!
//! The function runs in a worker. A settled step is not run again: a worker that runs the function from the top
//! receives the step's outcome instead.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::code::StepKind;
use crate::contains::matches_within;
use crate::failure::Failure;
use crate::ids::StepKey;
use crate::payload::Payload;
use crate::run::Cx;
use crate::time::Timestamp;
use crate::topics::EventRef;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The last turn's number; 0 before the first.
    pub turn: u32,
    #[serde(default, skip_serializing_if = "TurnStatus::is_held")]
    pub(crate) turn_status: TurnStatus,
    /// Turns lost in a row without any progress.
    pub(crate) losses: u32,
    pub(crate) steps: BTreeMap<StepKey, Step>,
    /// Signals that arrived before a wait for them was opened.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) buffered: VecDeque<Buffered>,
    /// Failed steps that may be retried now.
    pub(crate) ready: usize,
    /// Bytes of JSON in this progress, including the patterns of open waits.
    pub(crate) bytes: usize,
}

/// The status of the last turn. A worker whose turn was revoked or given up may not have been notified yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum TurnStatus {
    /// A worker holds the turn, as far as this node knows.
    #[default]
    Held,
    /// The worker was lost, and no entry has followed.
    Lost,
    /// The run was paused: steps that were running may still report their results, and no new step begins.
    Revoked,
    /// The run failed and is retried: the next turn performs the retry.
    Over,
}

impl TurnStatus {
    fn is_held(&self) -> bool {
        *self == Self::Held
    }
}

/// A step that the journal contains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub kind: StepKind,
    /// The last entry that changed the step.
    pub seq: u64,
    /// Its last attempt.
    pub attempt: u32,
    /// Failed attempts since the step began or was retried.
    pub failures: u32,
    pub end: Option<End>,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum End {
    /// The output of the step; for a call, the output of the other run.
    Output(Payload),
    /// The step failed and is not retried.
    Failure(Failure),
    Slept,
    Signal(Payload),
    Timeout,
    /// A published event resolved a wait.
    Event {
        data: Payload,
        event: Box<EventRef>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Buffered {
    pub(crate) seq: u64,
    pub(crate) event: String,
    pub(crate) payload: Payload,
    pub(crate) until: Timestamp,
}

impl Progress {
    /// Whether a failed step may be retried now.
    pub(crate) fn has_ready_steps(&self) -> bool {
        self.ready > 0
    }

    /// The approximate memory of this progress beside its JSON, in bytes.
    pub(crate) fn weight(&self) -> usize {
        128 * (self.steps.len() + self.buffered.len())
    }

    /// Whether the worker that holds this turn may continue the function.
    pub fn may_go_on(&self, turn: u32) -> bool {
        turn > 0 && turn == self.turn && matches!(self.turn_status, TurnStatus::Held | TurnStatus::Lost)
    }

    /// Whether a pause ended the last turn: steps that were running then may still be running.
    pub fn is_revoked(&self) -> bool {
        self.turn_status == TurnStatus::Revoked
    }

    /// The step with this key, if the journal contains it.
    pub fn step(&self, step: &StepKey) -> Option<&Step> {
        self.steps.get(step)
    }

    /// All steps in the journal, by name.
    pub fn steps(&self) -> impl Iterator<Item = (&StepKey, &Step)> {
        self.steps.iter()
    }

    /// Records that a step sleeps, waits or calls.
    pub(crate) fn begin(&mut self, step: &StepKey, kind: StepKind, seq: u64, attempt: u32) -> Option<()> {
        let known = self.steps.entry(step.clone()).or_insert(Step { kind, seq, attempt: 0, failures: 0, end: None });
        if known.kind != kind || known.end.is_some() {
            return None;
        }
        (known.seq, known.attempt) = (seq, attempt);
        self.went_on();
        Some(())
    }

    /// Records a failed attempt that will be retried.
    pub(crate) fn failed(&mut self, step: &StepKey, seq: u64, attempt: u32) -> Option<()> {
        let is_new = !self.steps.contains_key(step);
        self.begin(step, StepKind::Run, seq, attempt)?;
        self.steps.get_mut(step)?.failures += 1;
        self.ready += usize::from(is_new);
        Some(())
    }

    /// Records that a failed step waits for its next attempt (`waits`), or may be retried now.
    pub(crate) fn back_off(&mut self, step: &StepKey, seq: u64, waits: bool) -> Option<()> {
        self.steps.get_mut(step).filter(|step| step.end.is_none())?.seq = seq;
        self.ready = if waits { self.ready.checked_sub(1)? } else { self.ready + 1 };
        Some(())
    }

    /// Records the end of a step.
    pub(crate) fn finish(&mut self, step: &StepKey, seq: u64, attempt: u32, end: End) -> Option<()> {
        self.bytes += end.size();
        self.went_on();
        let failures = u32::from(matches!(end, End::Failure(_)));
        let Some(known) = self.steps.get_mut(step) else {
            let known = Step { kind: StepKind::Run, seq, attempt, failures, end: Some(end) };
            self.steps.insert(step.clone(), known);
            return Some(());
        };
        if known.end.is_some() {
            return None;
        }
        if known.kind == StepKind::Run {
            self.ready = self.ready.checked_sub(1)?;
        }
        known.failures += failures;
        (known.seq, known.attempt, known.end) = (seq, attempt, Some(end));
        Some(())
    }

    /// Records that the run is paused. A turn that is over stays over.
    pub(crate) fn paused(&mut self) {
        if self.turn_status != TurnStatus::Over {
            self.turn_status = TurnStatus::Revoked;
        }
    }

    /// Resets the count of lost turns, because a step has made progress.
    fn went_on(&mut self) {
        self.losses = 0;
        if self.turn_status == TurnStatus::Lost {
            self.turn_status = TurnStatus::Held;
        }
    }

    /// A failed run is retried: which of the failed steps are tried again, under their next attempts?
    ///
    /// 1. The step that caused the failure of the run, and every step that failed after it.
    /// 2. If no step caused it: the steps that failed last, with only failures after them.
    /// 3. The function handled every earlier failure. Such a step is not retried; the function receives its failure
    ///    again.
    pub(crate) fn retried(&mut self, seq: u64, blamed: Option<&StepKey>) {
        (self.losses, self.turn_status) = (0, TurnStatus::Over);
        let is_failed = |step: &&Step| matches!(step.end, Some(End::Failure(_)));
        let blamed = blamed.and_then(|step| self.steps.get(step)).filter(is_failed);
        let from = match blamed {
            Some(step) => step.seq,
            None => self.steps.values().filter(|step| !is_failed(step)).map(|step| step.seq).max().unwrap_or(0),
        };
        for step in self.steps.values_mut().filter(|step| step.seq >= from) {
            if let Some(End::Failure(failure)) = &step.end {
                self.bytes -= size_of_failure(failure);
                self.ready += usize::from(step.kind == StepKind::Run);
                (step.end, step.failures, step.seq) = (None, 0, seq);
            }
        }
    }

    /// The oldest buffered signal that matches a wait.
    pub(crate) fn find_buffered(&self, event: &str, pattern: &Payload, cx: Cx<'_>) -> Option<&Buffered> {
        let is_match = |kept: &Buffered| matches_within(&kept.payload, pattern, cx.meter);
        self.buffered.iter().find(|kept| kept.event == event && kept.until > cx.now && is_match(kept))
    }

    /// Buffers a signal, and drops buffered signals that have expired.
    pub(crate) fn buffer(&mut self, buffered: Buffered, now: Timestamp) {
        while let Some(expired) = self.buffered.front().filter(|kept| kept.until <= now) {
            self.bytes -= expired.payload.size();
            self.buffered.pop_front();
        }
        self.bytes += buffered.payload.size();
        self.buffered.push_back(buffered);
    }

    /// The number of buffered signals that have not expired.
    pub(crate) fn count_buffered(&self, now: Timestamp) -> usize {
        self.buffered.iter().filter(|kept| kept.until > now).count()
    }

    /// Removes a buffered signal.
    pub(crate) fn unbuffer(&mut self, seq: u64) {
        if let Some(place) = self.buffered.iter().position(|kept| kept.seq == seq)
            && let Some(kept) = self.buffered.remove(place)
        {
            self.bytes -= kept.payload.size();
        }
    }
}

impl End {
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Output(payload) | Self::Signal(payload) | Self::Event { data: payload, .. } => payload.size(),
            Self::Failure(failure) => size_of_failure(failure),
            Self::Slept | Self::Timeout => 0,
        }
    }
}

fn size_of_failure(failure: &Failure) -> usize {
    failure.code.len() + failure.message.len()
}
