//! The runs that a run started: what its state knows of them, and what follows from their starts and ends.

use serde_json::json;

use super::decide::Draft;
use super::{Child, Doing, Open, Parent, Phase, Reply, State};
use crate::failure::{Failure, code};
use crate::ids::{RunId, StepKey};
use crate::journal::{Event, Outcome};
use crate::payload::Payload;

impl State {
    /// The run that this attempt of a step started, while the step is open. Of an original's child a fork knows nothing.
    pub(crate) fn open_child(&self, step: &StepKey, attempt: u32) -> Option<&Child> {
        match &self.open.get(step).filter(|open| open.attempt == attempt)?.doing {
            Doing::Child(child) if child.is_of(self.run, step, attempt) => Some(child),
            _ => None,
        }
    }

    /// Whether a step was opened by the run that this one is a fork of, and its child is not ours.
    pub(crate) fn has_foreign_child(&self, step: &StepKey) -> bool {
        let open = self.open.get(step);
        open.is_some_and(
            |open| matches!(&open.doing, Doing::Child(child) if !child.is_of(self.run, step, open.attempt)),
        )
    }

    /// The step that waits for this run's end. That of a fork's original waits for the original.
    pub fn awaited_by(&self) -> Option<&Parent> {
        self.parent.as_ref().filter(|parent| parent.waits && parent.started(self.run))
    }

    /// What the child of an open step is told of its parent; `None` for a step that is not one.
    pub fn parent_of(&self, step: &StepKey, attempt: u32) -> Option<Parent> {
        let waits = self.open_child(step, attempt)?.waits;
        Some(Parent { run: self.run, step: step.clone(), attempt, waits, depth: self.depth().saturating_add(1) })
    }

    /// Whether a step is open that started a run.
    pub fn has_open_children(&self) -> bool {
        self.children.has_open()
    }

    /// How many runs there are above this one.
    pub fn depth(&self) -> u32 {
        self.parent.as_ref().map_or(0, |parent| parent.depth)
    }

    /// The run is over. What is open stays so, for a retry; children that were waited for are not any more.
    pub(crate) fn end(&mut self, phase: Phase) {
        self.phase = phase;
        if self.children.has_open() {
            for (step, open) in &self.open {
                if let Doing::Child(child) = &open.doing
                    && child.is_of(self.run, step, open.attempt)
                {
                    self.children.leave(self.seq, child);
                }
            }
        }
    }

    /// Leaves the child of a step that timed out. A child that ended is not left, whatever it failed of: timers fire
    /// only while the run is live, and before all else.
    pub(crate) fn leave_late_child(&mut self, step: &StepKey, open: &Open, failure: &Failure) {
        if let Doing::Child(child) = &open.doing
            && child.is_of(self.run, step, open.attempt)
            && self.phase == Phase::Live
            && failure.code == code::STEP_TIMEOUT
            && open.timer.is_some_and(|due| due <= self.updated_at)
        {
            self.children.leave(self.seq, child);
        }
    }

    /// Children that were waited for were cancelled when the run failed: their steps begin again.
    pub(crate) fn call_again(&mut self) {
        if !self.children.has_open() {
            return;
        }
        let is_left = |open: &Open| matches!(&open.doing, Doing::Child(child) if child.waits);
        let left: Vec<_> = self.open.iter().filter(|(_, open)| is_left(open)).map(|(step, _)| step.clone()).collect();
        for step in left {
            let Some(open) = self.close(&step) else { continue };
            self.todo.insert(step.clone());
            self.open.insert(step, Open { doing: Doing::Again, timer: None, ..open });
        }
    }
}

impl Draft<'_> {
    /// A child came to its end, or could not be started. Counts only for the child of the open attempt.
    pub(crate) fn child_ended(
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
    pub(crate) fn child_started(&mut self, step: StepKey, attempt: u32, child: RunId) -> Reply {
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
