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

impl Runs {
    /// How the function of a run has ended. Only runs of code that have completed or failed are read.
    pub async fn function_end(&self, row: &RunRow) -> Result<FunctionEnd, Error> {
        let has_ended = matches!(row.status, Status::Completed | Status::Failed);
        if !has_ended || row.seq == 0 || !workers::is_worker_lane(&row.lane) {
            return Ok(FunctionEnd::default());
        }
        let last = self.engine.world().runs.journal(row.id, row.seq - 1, 1).await?.into_iter().next();
        let Some(Ok(last)) = last.map(|last| JournalEntry::decode(last).entry) else {
            return Ok(FunctionEnd::default());
        };
        if let Event::RunFailed { stack, unawaited, .. } = &last.event {
            return Ok(FunctionEnd { stack: stack.clone(), unawaited: unawaited.clone() });
        }
        let Event::RunCompleted { unawaited, .. } = last.event else { return Ok(FunctionEnd::default()) };
        Ok(FunctionEnd { stack: None, unawaited })
    }
}
