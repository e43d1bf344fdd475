//! News of the runs that a run started.

use serde_json::json;

use super::Draft;
use crate::event::{Event, Outcome};
use crate::failure::Failure;
use crate::ids::{RunId, StepKey};
use crate::input::Reply;
use crate::payload::Payload;

impl Draft<'_> {
    /// A child came to its end, or could not be started. Counts only for the child of the open attempt.
    pub(super) fn child_ended(
        &mut self,
        step: StepKey,
        attempt: u32,
        child: RunId,
        result: Result<Payload, Failure>,
    ) -> Reply {
        let Some(waits) = self.open_child(&step, attempt, child) else {
            return Reply::ignored("the child's end is late");
        };
        let outcome = result.map(|output| if waits { Outcome::of(output) } else { started(child) });
        let event = match outcome.and_then(|outcome| self.check(&step, outcome)) {
            Ok(outcome) => Event::StepCompleted { step, attempt, outcome },
            Err(failure) => {
                // A call is not tried again by itself: the function decides.
                let retryable = failure.retryable && !self.workflow.is_code();
                let failure = Failure { retryable, ..failure };
                Event::failed(step, attempt, failure)
            }
        };
        self.write(event);
        Reply::Accepted
    }

    /// A child is there: that is all that a step which does not wait for its end asks.
    pub(super) fn child_started(&mut self, step: StepKey, attempt: u32, child: RunId) -> Reply {
        match self.open_child(&step, attempt, child) {
            None => Reply::ignored("the child's start is late"),
            Some(true) => Reply::ignored("the step waits for the child's end"),
            Some(false) => {
                self.write(Event::StepCompleted { step, attempt, outcome: started(child) });
                Reply::Accepted
            }
        }
    }

    /// Whether an open child is waited for; `None` where it is not open.
    fn open_child(&self, step: &StepKey, attempt: u32, child: RunId) -> Option<bool> {
        let open = self.state.open_child(step, attempt).filter(|open| open.run == child && !self.state.has_ended())?;
        Some(open.waits)
    }
}

fn started(child: RunId) -> Outcome {
    Outcome::of(json!({"runId": child.to_string()}))
}
