//! A step that runs another workflow.

use std::sync::Arc;

use super::model::Call;
use crate::child::Child;
use crate::evaluate::{Evaluate, Lookup};
use crate::failure::{Failure, code};
use crate::ids::StepKey;
use crate::limits;
use crate::payload::{self, Payload};
use crate::state::State;
use crate::time::Timestamp;

/// The child that an attempt of a step starts.
pub(super) fn child(
    call: &Call,
    step: &StepKey,
    attempt: u32,
    state: &State,
    view: &dyn Lookup,
    now: Timestamp,
    evaluate: &dyn Evaluate,
) -> Result<Arc<Child>, Failure> {
    if state.depth() >= limits::CHILD_DEPTH {
        let message = format!("runs start one another at most {} deep", limits::CHILD_DEPTH);
        return Err(Failure::fatal(code::TOO_DEEP, message));
    }
    let input = Payload::from(evaluate.resolve(&call.input, view)?);
    check(step, &input, state)?;
    Ok(Arc::new(Child {
        run: Child::id(state.run, step, attempt, now),
        workflow: call.workflow.clone(),
        version: call.version,
        input,
        waits: call.waits,
        due: call.timeout.map(|timeout| now.plus(timeout)),
    }))
}

/// Refuses an input that is over a limit: it is kept while the child is open.
fn check(step: &StepKey, input: &Payload, state: &State) -> Result<(), Failure> {
    let size = input.size();
    if size > limits::PAYLOAD_BYTES {
        let message = format!("the input that {step} gives is {size} bytes, more than {}", limits::PAYLOAD_BYTES);
        return Err(Failure::fatal(code::PAYLOAD_TOO_LARGE, message));
    }
    if payload::depth(input.json()) > limits::JSON_DEPTH {
        let message = format!("the input that {step} gives is nested deeper than {} levels", limits::JSON_DEPTH);
        return Err(Failure::fatal(code::PAYLOAD_TOO_DEEP, message));
    }
    if state.weight() + size > limits::STATE_BYTES {
        let message = format!("with the input that {step} gives the run exceeds {} bytes", limits::STATE_BYTES);
        return Err(Failure::fatal(code::CONTEXT_TOO_LARGE, message));
    }
    Ok(())
}
