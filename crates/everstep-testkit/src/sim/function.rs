//! A function in a worker's memory.

use std::collections::{BTreeMap, BTreeSet};

use everstep_core::code::Report;
use everstep_core::failure::Failure;
use everstep_core::ids::StepKey;
use everstep_engine::{StepOutcome, StepRecord, Turn};

use super::scripts::{self, Demand, End, EndOutcome, Ends, Op};

pub(super) struct Function {
    pub(super) turn: Turn,
    /// The last entry that it has received.
    pub(super) seq: u64,
    pub(super) ends: Ends,
    pub(super) steps: BTreeMap<StepKey, Status>,
    /// The entry up to which it has reported that it only waits.
    blocked: Option<u64>,
    has_ended: bool,
    /// Whether the worker holds its turn in its present session. Until then it may have missed messages.
    is_confirmed: bool,
}

/// A step that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// As this attempt.
    Running(u32),
    /// Under this number, as this attempt.
    Reported(u64, u32),
    /// A wake will arrive.
    Open,
    /// It may be retried as this attempt.
    Retry(u32),
}

/// The next action of a function.
pub(super) enum Next {
    /// It has returned, or thrown.
    Ended(Report),
    /// It has reached these steps, each to be tried as an attempt.
    Steps(Vec<(StepKey, Demand, u32)>),
    Nothing,
}

impl Function {
    pub(super) fn from_turn(turn: &Turn) -> Self {
        let (ends, steps) = (Ends::new(), BTreeMap::new());
        Self { turn: turn.clone(), seq: turn.seq, ends, steps, blocked: None, has_ended: false, is_confirmed: true }
    }

    /// A step has ended, and its end never changes.
    fn settle(&mut self, step: &StepKey, seq: u64, outcome: EndOutcome) -> Result<(), String> {
        self.steps.remove(step);
        let end = End { seq, outcome };
        match self.ends.insert(step.clone(), end.clone()) {
            Some(before) if before != end => Err(format!("{step} ended with {before:?} and with {end:?}")),
            _ => Ok(()),
        }
    }

    /// Receives the journal's record of a step.
    pub(super) fn learn(&mut self, known: &StepRecord) -> Result<(), String> {
        self.seq = self.seq.max(known.seq);
        let outcome = match &known.outcome {
            StepOutcome::Completed { output } => EndOutcome::Gave(output.value().clone()),
            StepOutcome::Failed { .. } => EndOutcome::Failed,
            StepOutcome::Slept => EndOutcome::Slept,
            StepOutcome::Resolved { payload, .. } => EndOutcome::Signal(payload.value().clone()),
            StepOutcome::TimedOut => EndOutcome::TimedOut,
            StepOutcome::Retry { attempt } => {
                // A step that is being retried was reported before.
                let is_tried = match self.steps.get(&known.step) {
                    Some(Status::Running(tried) | Status::Reported(_, tried) | Status::Retry(tried)) => {
                        tried >= attempt
                    }
                    None | Some(Status::Open) => false,
                };
                if !is_tried {
                    self.steps.insert(known.step.clone(), Status::Retry(*attempt));
                }
                return Ok(());
            }
            StepOutcome::Open => {
                self.steps.entry(known.step.clone()).or_insert(Status::Open);
                return Ok(());
            }
        };
        self.settle(&known.step, known.seq, outcome)
    }

    /// A report of its own is in the journal.
    pub(super) fn acked(&mut self, n: u64, report: &Report, seq: Option<u64>) -> Result<(), String> {
        self.seq = seq.map_or(self.seq, |seq| self.seq.max(seq));
        // Without a seq the step was known before. While the turn is not confirmed, earlier entries must arrive first.
        if let (Report::Completed { step, output, .. }, Some(seq), true) = (report, seq, self.is_confirmed) {
            return self.settle(step, seq, EndOutcome::Gave(output.value().clone()));
        }
        match report {
            Report::Failed { step, .. }
            | Report::Slept { step, .. }
            | Report::Waited { step, .. }
            | Report::Called { step, .. }
            | Report::Published { step, .. } => {
                if matches!(self.steps.get(step), Some(Status::Reported(number, _)) if *number == n) {
                    self.steps.insert(step.clone(), Status::Open);
                }
                Ok(())
            }
            Report::Completed { .. }
            | Report::Returned { .. }
            | Report::Threw { .. }
            | Report::Diverged { .. }
            | Report::Blocked { .. }
            | Report::Declined { .. } => Ok(()),
        }
    }

    /// Runs as far as it can.
    pub(super) fn next(&mut self, script: &[Op]) -> Next {
        if self.has_ended || !self.is_confirmed {
            return Next::Nothing;
        }
        let played = scripts::play(script, &self.ends);
        if let Some(end) = played.end {
            self.has_ended = true;
            return Next::Ended(match end {
                Ok(value) => Report::returned(value),
                Err(step) => Report::threw(Failure::fatal("THREW", "a step failed"), Some(step)),
            });
        }
        let attempt = |step: &StepKey| match self.steps.get(step) {
            None => Some(1),
            Some(Status::Retry(attempt)) => Some(*attempt),
            Some(Status::Running(_) | Status::Reported(..) | Status::Open) => None,
        };
        let open = played.demands.into_iter().filter(|(step, _)| !self.ends.contains_key(step));
        Next::Steps(open.filter_map(|(step, demand)| attempt(&step).map(|attempt| (step, demand, attempt))).collect())
    }

    /// It received its whole turn, perhaps again: from a sender that does not know that it only waits.
    pub(super) fn accept_turn(&mut self, seq: u64) {
        self.seq = self.seq.max(seq);
        self.blocked = None;
        self.is_confirmed = true;
    }

    /// Its worker has another session.
    pub(super) fn unconfirm(&mut self) {
        self.is_confirmed = false;
    }

    pub(super) fn is_running(&self) -> bool {
        self.steps.values().any(|status| matches!(status, Status::Running(_)))
    }

    pub(super) fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    /// The last entry that it has received, if it only waits for steps that are open in the journal, or will do so
    /// after these reports, and has not reported that.
    pub(super) fn block(&mut self, on_their_way: &BTreeSet<u64>) -> Option<u64> {
        let only_waits = self.steps.values().all(|status| match status {
            Status::Open => true,
            Status::Reported(n, _) => on_their_way.contains(n),
            Status::Running(_) | Status::Retry(_) => false,
        });
        if self.has_ended || !only_waits || self.blocked == Some(self.seq) {
            return None;
        }
        self.blocked = Some(self.seq);
        self.blocked
    }
}
