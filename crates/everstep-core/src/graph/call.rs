//! A step that runs another workflow.

use std::sync::Arc;

use super::model::Call;
use crate::evaluate::Lookup;
use crate::failure::Failure;
use crate::ids::StepKey;
use crate::payload::Payload;
use crate::run::child::{self, Child};
use crate::run::{Cx, State};

/// The child that an attempt of a step starts.
pub(super) fn child(
    call: &Call,
    step: &StepKey,
    attempt: u32,
    state: &State,
    view: &dyn Lookup,
    cx: Cx<'_>,
) -> Result<Arc<Child>, Failure> {
    child::check_depth(state)?;
    let input = Payload::from(cx.resolve(&call.input, view)?);
    child::check_input(step, &input, state)?;
    Ok(Arc::new(Child {
        run: Child::id(state.run, step, attempt, cx.now),
        workflow: call.workflow.clone(),
        version: call.version,
        input,
        waits: call.waits,
        due: call.timeout.map(|timeout| cx.now.plus(timeout)),
    }))
}
