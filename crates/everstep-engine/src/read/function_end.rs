//! The stack trace and the unawaited steps of a function that has ended.

use everstep_core::ids::StepKey;
use everstep_core::journal::Event;
use everstep_core::status::Status;
use everstep_store::RunRow;

use super::journal::JournalEntry;
use super::runs::Runs;
use crate::error::Error;
use crate::workers;

/// The facts about a function in the last entry of its run, beside the output or the failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionEnd {
    /// The stack trace of the error that the function has thrown.
    pub stack: Option<Box<str>>,
    /// Steps that the function did not await.
    pub unawaited: Vec<StepKey>,
}

impl FunctionEnd {
    /// The facts in the last entry of a run.
    pub(crate) fn from_event(row: &RunRow, last: &Event) -> Self {
        if !has_function_end(row) {
            return Self::default();
        }
        match last {
            Event::RunFailed { stack, unawaited, .. } => Self { stack: stack.clone(), unawaited: unawaited.clone() },
            Event::RunCompleted { unawaited, .. } => Self { stack: None, unawaited: unawaited.clone() },
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
            | Event::TransitionApplied(_)
            | Event::VoteCast(_)
            | Event::Assigned(_)
            | Event::ContextSet { .. }
            | Event::RunPaused { .. }
            | Event::RunResumed
            | Event::RunRetried
            | Event::RunCancelled { .. } => Self::default(),
        }
    }
}

/// Whether a function has ended the run: only runs of code complete or fail by a function.
fn has_function_end(row: &RunRow) -> bool {
    matches!(row.status, Status::Completed | Status::Failed) && row.seq > 0 && workers::is_worker_lane(&row.lane)
}

impl Runs {
    /// How the function of a run has ended. Only runs of code that have completed or failed are read.
    pub async fn function_end(&self, row: &RunRow) -> Result<FunctionEnd, Error> {
        if !has_function_end(row) {
            return Ok(FunctionEnd::default());
        }
        let last = self.engine.world().runs.journal(row.id, row.seq - 1, 1).await?.into_iter().next();
        let last = last.and_then(|last| JournalEntry::decode(last).entry.ok());
        Ok(last.map(|last| FunctionEnd::from_event(row, &last.event)).unwrap_or_default())
    }
}
