//! The conditions on runs whose functions workers run.

use std::collections::{BTreeMap, BTreeSet};

use everstep_core::code::Report;
use everstep_core::failure::{Failure, code};
use everstep_core::ids::{RunId, StepKey};
use everstep_core::journal::codec;
use everstep_core::journal::{Entry, Event, Resolution};
use everstep_core::limits;
use everstep_engine::{StepOutcome, Turn};
use serde_json::Value;

use super::ledger::Ledger;
use super::scripts::{self, End, EndOutcome, Ends, Op};
use super::store::SimStore;

/// Observations of messages to workers.
impl SimStore {
    fn entries(&self, run: RunId, after: u64, limit: usize) -> Vec<Entry> {
        let stored = self.direct(|db| db.journal(run, after, limit)).unwrap_or_default();
        stored.into_iter().filter_map(|stored| codec::decode(stored.seq, stored.at, stored.row).ok()).collect()
    }

    pub(super) fn was_retried(&self, run: RunId) -> bool {
        self.entries(run, 0, 100_000).iter().any(|entry| entry.event == Event::RunRetried)
    }

    /// A turn is durable before a worker receives it, and contains all steps of the journal.
    pub(super) fn watch_turn(&self, worker: &str, turn: &Turn) {
        let journal = self.entries(turn.run, 0, turn.seq as usize);
        let is_durable = journal
            .iter()
            .any(|entry| matches!(&entry.event, Event::TurnStarted { turn: number, .. } if *number == turn.turn));
        let mut ledger = self.ledger();
        if !is_durable {
            ledger.violation(format!("{worker} was given turn {} of {}, which is not durable", turn.turn, turn.run));
        }
        if turn.steps.windows(2).any(|pair| pair[0].seq > pair[1].seq) {
            ledger.violation(format!("{worker}: the steps of {} are not in the order of the journal", turn.run));
        }
        let mut received = Ends::new();
        for known in &turn.steps {
            let outcome = match &known.outcome {
                StepOutcome::Completed { output } => EndOutcome::Gave(output.value().clone()),
                StepOutcome::Failed { .. } => EndOutcome::Failed,
                StepOutcome::Slept => EndOutcome::Slept,
                StepOutcome::Resolved { payload, .. } => EndOutcome::Signal(payload.value().clone()),
                StepOutcome::TimedOut => EndOutcome::TimedOut,
                StepOutcome::Retry { .. } | StepOutcome::Open => continue,
            };
            received.insert(known.step.clone(), End { seq: known.seq, outcome });
        }
        let ends = ends(&journal);
        if received != ends {
            let (run, number) = (turn.run, turn.turn);
            ledger.violation(format!(
                "{worker}: turn {number} of {run} contains {received:?}, the journal contains {ends:?}"
            ));
        }
    }

    /// An acknowledged report is durable.
    pub(super) fn watch_ack(&self, worker: &str, run: RunId, report: &Report, seq: Option<u64>) {
        let Some(seq) = seq else { return };
        let step = report.step();
        let entries = self.entries(run, seq - 1, 1);
        let stored = entries.first().map(|entry| entry.event.step().map(|(step, _)| step));
        let is_there = match step {
            Some(_) => stored == Some(step),
            None => stored.is_some(),
        };
        if !is_there {
            self.ledger().violation(format!(
                "{worker}: {run} {report:?} is acknowledged as entry {seq}, which is a different entry"
            ));
        }
    }
}

/// The ends of a function's steps. A retry drops the failure that ended the run and those after it.
fn ends(journal: &[Entry]) -> Ends {
    let mut ends = Ends::new();
    // The last entry about each step; and those whose timers are not those of sleeps.
    let (mut last, mut tried) = (BTreeMap::new(), BTreeSet::new());
    let mut blamed = None;
    for entry in journal {
        let seq = entry.seq;
        if let Some((step, _)) = entry.event.step() {
            last.insert(step, seq);
        }
        let (step, end) = match &entry.event {
            Event::StepCompleted { step, outcome, .. } => (step, EndOutcome::Gave(outcome.output.value().clone())),
            Event::StepFailed { step, failure, .. } if !failure.retryable => (step, EndOutcome::Failed),
            Event::StepFailed { step, .. } => {
                tried.insert(step);
                continue;
            }
            Event::TimerFired { step, .. } if !tried.contains(step) => (step, EndOutcome::Slept),
            Event::WaitResolved { step, by: Resolution::Signal { payload, .. }, .. } => {
                (step, EndOutcome::Signal(payload.value().clone()))
            }
            Event::WaitResolved { step, by: Resolution::Event { data, .. }, .. } => {
                (step, EndOutcome::Signal(data.value().clone()))
            }
            Event::WaitResolved { step, by: Resolution::Timeout, .. } => (step, EndOutcome::TimedOut),
            Event::RunFailed { step, .. } => {
                blamed = step.as_ref();
                continue;
            }
            Event::RunRetried => {
                let is_failed = |step: &StepKey| ends.get(step).is_some_and(|end| end.outcome == EndOutcome::Failed);
                let others = last.iter().filter(|(step, _)| !is_failed(step)).map(|(_, seq)| *seq);
                let from = match blamed.take().filter(|step| is_failed(step)) {
                    Some(step) => ends[step].seq,
                    None => others.max().unwrap_or(0),
                };
                let again: Vec<_> =
                    last.keys().copied().filter(|step| is_failed(step) && ends[*step].seq >= from).collect();
                for step in again {
                    ends.remove(step);
                    last.insert(step, seq);
                }
                continue;
            }
            _ => continue,
        };
        ends.insert(step.clone(), End { seq, outcome: end });
    }
    ends
}

/// Checks a run of a code workflow that has ended.
///
/// 1. A worker gave the output of every step, in the turn that was the last when it was written.
/// 2. The end of the run is the result of its function, or a cancellation, or ten workers in a row were lost.
/// 3. The journal contains no step that the function does not reach.
pub(super) fn check(ledger: &Ledger, run: RunId, script: &[Op], journal: &[Entry]) -> Result<(), String> {
    check_fences(ledger, run, journal)?;
    let ends = ends(journal);
    let played = scripts::play(script, &ends);
    let was_retried = journal.iter().any(|entry| entry.event == Event::RunRetried);
    if let Some(step) = ends.keys().find(|step| !played.demands.contains_key(*step))
        && !was_retried
    {
        return Err(format!("{run}: the journal contains {step}, which the function does not reach"));
    }
    let lost = journal.iter().filter(|entry| matches!(entry.event, Event::TurnLost { .. })).count();
    match journal.last().map(|entry| &entry.event) {
        Some(Event::RunCompleted { output, .. }) => match &played.end {
            Some(Ok(value)) if value == output.value() => Ok(()),
            end => Err(format!("{run} returned {}, and its function returns {end:?}", output.json())),
        },
        Some(Event::RunFailed { failure, .. }) if failure.code == code::WORKER_LOST => {
            let is_so = lost >= limits::CONSECUTIVE_LOST_TURNS as usize;
            if is_so { Ok(()) } else { Err(format!("{run} has lost {lost} turns and was failed")) }
        }
        Some(Event::RunFailed { failure, step, .. }) => match &played.end {
            Some(Err(thrown)) if failure.code == "THREW" && step.as_ref() == Some(thrown) => Ok(()),
            end => Err(format!("{run} failed with {failure} at {step:?}, and its function returns {end:?}")),
        },
        Some(Event::RunCancelled { .. }) => Ok(()),
        last => Err(format!("{run} ends with {last:?}")),
    }
}

/// No report of an older turn was written.
fn check_fences(ledger: &Ledger, run: RunId, journal: &[Entry]) -> Result<(), String> {
    let mut last = 0;
    for entry in journal {
        let seq = entry.seq;
        let reported = match &entry.event {
            Event::TurnStarted { turn, .. } => {
                last = *turn;
                continue;
            }
            Event::StepCompleted { step, outcome, .. } => given(outcome.output.value()).map(|given| (step, given)),
            Event::StepFailed { step, failure, .. } => threw(failure).map(|given| (step, given)),
            _ => continue,
        };
        let Some((step, (turn, token))) = reported else { continue };
        if turn != last {
            return Err(format!("{run}: entry {seq} was reported in turn {turn}, and turn {last} had begun"));
        }
        if !ledger.tokens.contains(&(run, step.clone(), token)) {
            return Err(format!("{run}: entry {seq} has an output of {step} that no worker gave"));
        }
    }
    Ok(())
}

/// The turn and the token in a worker's output.
fn given(output: &Value) -> Option<(u32, u64)> {
    Some((u32::try_from(output.get("turn")?.as_u64()?).ok()?, output.get("token")?.as_u64()?))
}

fn threw(failure: &Failure) -> Option<(u32, u64)> {
    let (turn, token) = failure.message.split_once(' ').filter(|_| failure.code == "UNLUCKY")?;
    Some((turn.parse().ok()?, token.parse().ok()?))
}
