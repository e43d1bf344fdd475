//! The parts of a run's journal that a worker receives: all steps with a new turn, or the steps that settle while it
//! holds the turn.

use std::collections::VecDeque;
use std::sync::Arc;

use everstep_core::code::{End, Progress, Step, StepKind};
use everstep_core::ids::StepKey;
use everstep_core::journal::{Entry, Event};
use everstep_core::run::{Reply, State};
use everstep_core::workflow::Workflow;

use super::message::{StepOutcome, StepRecord, Turn, WorkerMessage};
use super::session::Session;
use crate::run::Envelope;

/// Steps that settled, for a function that continues in memory.
pub(crate) struct Wakes {
    pub(super) session: Arc<Session>,
    /// By their entries.
    pub(super) messages: Vec<(u64, WorkerMessage)>,
}

impl Wakes {
    /// Sends replies and wakes in the order of the entries. A batch may end between any two messages, and results must
    /// reach the function in the journal's order.
    ///
    /// The wake that an input caused is sent before the reply to that input: if an output cannot be stored, the step
    /// has failed, and the function must receive the failure, not the acknowledgement.
    pub(crate) fn send(self, answered: Vec<(Envelope, Reply)>, entries: &[Entry]) {
        let Self { session, messages } = self;
        // The first entry of each input. A repeated input has none.
        let mut begins = VecDeque::new();
        let mut last = entries.first().map_or(0, |entry| entry.seq - 1);
        for (envelope, _) in &answered {
            if let Some(seq) = envelope.seq.filter(|seq| *seq > last) {
                last = seq;
                begins.push_back(seq);
            }
        }
        let mut wakes = messages.into_iter().peekable();
        for (envelope, reply) in answered {
            begins.pop_front_if(|seq| Some(*seq) == envelope.seq);
            let end = begins.front().copied().unwrap_or(u64::MAX);
            while let Some((_, wake)) = wakes.next_if(|(seq, _)| *seq < end) {
                session.put(wake);
            }
            envelope.answer(Ok(reply));
        }
        wakes.for_each(|(_, wake)| session.put(wake));
    }
}

/// Everything that a worker needs to run a run's function from the top.
pub(super) fn describe(workflow: &Workflow, state: &State, turn: u32) -> Turn {
    let known = state.code().into_iter().flat_map(Progress::steps);
    let mut steps: Vec<_> = known.filter_map(|(key, step)| record(state, key, step)).collect();
    steps.sort_by_key(|step| step.seq);
    Turn {
        run: state.run,
        turn,
        workflow: workflow.name.clone(),
        version: workflow.version,
        input: state.input.clone(),
        started_at: state.started_at,
        trigger: state.trigger().cloned(),
        seq: state.seq,
        steps,
    }
}

/// The journal's record of a step.
fn record(state: &State, key: &StepKey, step: &Step) -> Option<StepRecord> {
    let outcome = match &step.end {
        Some(End::Output(output)) => StepOutcome::Completed { output: output.clone() },
        Some(End::Failure(failure)) => StepOutcome::Failed { failure: failure.clone(), attempts: step.attempt },
        Some(End::Slept) => StepOutcome::Slept,
        Some(End::Signal(payload)) => StepOutcome::Resolved { payload: payload.clone(), event: None },
        Some(End::Event { data, event }) => StepOutcome::Resolved { payload: data.clone(), event: Some(event.clone()) },
        Some(End::Timeout) => StepOutcome::TimedOut,
        None if state.is_open(key) => StepOutcome::Open,
        None if step.kind == StepKind::Run => StepOutcome::Retry { attempt: step.attempt + 1 },
        // A call that was cancelled with its run is made again.
        None => return None,
    };
    Some(StepRecord { step: key.clone(), kind: step.kind, seq: step.seq, outcome })
}

/// The step that an entry settled, for a function that continues in memory; none if the reply to its own report
/// contains it.
pub(super) fn wake(state: &State, entry: &Entry, is_answered: impl Fn(u64) -> bool) -> Option<StepRecord> {
    let step = match &entry.event {
        Event::TimerFired { step, .. } | Event::WaitResolved { step, .. } | Event::StepFailed { step, .. } => step,
        // A step that a worker performed has a start time.
        Event::StepCompleted { step, outcome, .. } => {
            if outcome.started_at.is_some() && is_answered(entry.seq) {
                return None;
            }
            step
        }
        Event::RunStarted { .. }
        | Event::StepDispatched { .. }
        | Event::StepSkipped { .. }
        | Event::TimerSet { .. }
        | Event::WaitOpened { .. }
        | Event::SignalBuffered { .. }
        | Event::TurnStarted { .. }
        | Event::TurnLost { .. }
        | Event::TransitionApplied(_)
        | Event::VoteCast(_)
        | Event::Assigned(_)
        | Event::ContextSet { .. }
        | Event::RunPaused { .. }
        | Event::RunResumed
        | Event::RunRetried
        | Event::RunCompleted { .. }
        | Event::RunFailed { .. }
        | Event::RunCancelled { .. } => return None,
    };
    let record = record(state, step, state.code()?.step(step)?)?;
    // An attempt that failed and waits for its timer does not wake the function.
    (record.outcome != StepOutcome::Open && record.seq == entry.seq).then_some(record)
}
