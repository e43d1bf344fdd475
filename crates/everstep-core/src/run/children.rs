//! The runs that a run started: their state in the parent, and the effects of their starts and ends.

use serde_json::json;

use super::decide::Draft;
use super::{Child, Parent, Reply, State};
use crate::failure::Failure;
use crate::ids::{RunId, StepKey};
use crate::journal::{Cause, Event, Outcome};
use crate::payload::Payload;

impl State {
    /// The run that this attempt of a step started, while the step is open. A fork does not own the children of its
    /// original.
    pub(crate) fn open_child(&self, step: &StepKey, attempt: u32) -> Option<&Child> {
        let open = self.open.get(step).filter(|open| open.attempt == attempt)?;
        open.own_child(self.run, step).map(|child| &**child)
    }

    /// The step that started this run.
    pub fn parent(&self) -> Option<&Parent> {
        self.cause.as_ref()?.parent.as_ref()
    }

    /// The step that waits for this run's end. The parent of a fork's original waits for the original, not for the
    /// fork.
    pub fn awaited_by(&self) -> Option<&Parent> {
        self.parent().filter(|parent| parent.waits && parent.started(self.run))
    }

    /// The parent that the child of an open step is started with; `None` for a step without a child.
    pub fn parent_of(&self, step: &StepKey, attempt: u32) -> Option<Parent> {
        let waits = self.open_child(step, attempt)?.waits;
        Some(Parent { run: self.run, step: step.clone(), attempt, waits, depth: self.depth().saturating_add(1) })
    }

    /// The cause that the child of an open step is started with; `None` for a step without a child. A child has the
    /// starter, the trigger and the forkers of its parent.
    pub fn cause_of(&self, step: &StepKey, attempt: u32) -> Option<Cause> {
        self.parent_of(step, attempt).map(|parent| self.cause_with(parent))
    }

    /// The cause that a dead delivery is started with when it is requeued: the same as before.
    pub(crate) fn cause_of_delivery(&self, step: &StepKey, attempt: u32) -> Cause {
        let (step, depth) = (step.clone(), self.depth().saturating_add(1));
        self.cause_with(Parent { run: self.run, step, attempt, waits: false, depth })
    }

    fn cause_with(&self, parent: Parent) -> Cause {
        Cause {
            parent: Some(parent),
            by: self.started_by().cloned(),
            trigger: self.trigger().cloned().map(Box::new),
            forked_by: self.forked_by().to_vec(),
        }
    }

    /// Whether an open step has started a run.
    pub fn has_open_children(&self) -> bool {
        self.open.has_children()
    }

    /// The number of ancestors of this run.
    pub fn depth(&self) -> u32 {
        self.parent().map_or(0, |parent| parent.depth)
    }
}

impl Draft<'_> {
    /// Records that a child ended, or could not be started. This counts only for the child of the open attempt.
    pub(super) fn child_ended(
        &mut self,
        step: StepKey,
        attempt: u32,
        child: RunId,
        result: Result<Payload, Failure>,
    ) -> Reply {
        let Some(waits) = self.open_child(&step, attempt, child) else {
            return Reply::ignored("the end of the child is late");
        };
        let outcome = result.map(|output| if waits { Outcome::from_output(output) } else { started(child) });
        let event = match outcome.and_then(|outcome| self.check(&step, outcome)) {
            Ok(outcome) => Event::StepCompleted { step, attempt, outcome },
            Err(failure) => Event::failed(step, attempt, self.workflow.style.child_failure(failure)),
        };
        self.write(event);
        Reply::Accepted
    }

    /// Records that a child exists: a step that does not wait for its end is complete.
    pub(super) fn child_started(&mut self, step: StepKey, attempt: u32, child: RunId) -> Reply {
        match self.open_child(&step, attempt, child) {
            None => Reply::ignored("the start of the child is late"),
            Some(true) => Reply::ignored("the step waits for the end of the child"),
            Some(false) => {
                self.write(Event::StepCompleted { step, attempt, outcome: started(child) });
                Reply::Accepted
            }
        }
    }

    /// Whether the step waits for an open child; `None` if the child is not open.
    fn open_child(&self, step: &StepKey, attempt: u32, child: RunId) -> Option<bool> {
        let open = self.state.open_child(step, attempt).filter(|open| open.run == child && !self.state.has_ended())?;
        Some(open.waits)
    }
}

fn started(child: RunId) -> Outcome {
    Outcome::from_output(json!({"runId": child.to_string()}))
}
