//! A run of a machine, as the functions of this style use it; and the run that a state starts.

use std::sync::Arc;

use serde_json::Value;

use super::context::MachineContext;
use super::model::{Machine, MachineState, StateRun};
use super::progress::{Place, Progress};
use crate::failure::Failure;
use crate::ids::StepKey;
use crate::payload::Payload;
use crate::run::child::{self, Child};
use crate::run::{Cx, State};
use crate::workflow::Workflow;

#[derive(Clone, Copy)]
pub(crate) struct MachineRun<'a> {
    pub(crate) workflow: &'a Workflow,
    pub(crate) machine: &'a Machine,
    pub(crate) state: &'a State,
    pub(crate) progress: &'a Progress,
}

impl<'a> MachineRun<'a> {
    /// `machine` is the machine of the workflow with which the state was folded.
    pub(crate) fn from_state(workflow: &'a Workflow, machine: &'a Machine, state: &'a State) -> Self {
        let progress = state.machine().expect("the state of a machine's run has a machine's progress");
        Self { workflow, machine, state, progress }
    }

    /// The run of a workflow, if it is a machine.
    pub(super) fn find(workflow: &'a Workflow, state: &'a State) -> Option<Self> {
        Some(Self { workflow, machine: workflow.style.machine()?, state, progress: state.machine()? })
    }

    /// The present state, with its definition; none before the first state.
    pub(super) fn place(self) -> Option<(&'a Place, &'a MachineState)> {
        let place = self.progress.place.as_ref()?;
        Some((place, self.machine.find_state(&place.state)?))
    }
}

/// The step of the run that a state starts.
pub(super) fn step_of_run(version_no: u32) -> StepKey {
    format!("@run[{version_no}]").into()
}

/// The run that entering a state starts.
pub(super) fn start_child(
    run: MachineRun<'_>,
    state_run: &StateRun,
    version_no: u32,
    lookup: &MachineContext<'_>,
    cx: Cx<'_>,
) -> Result<Arc<Child>, Failure> {
    const FIRST_ATTEMPT: u32 = 1;
    child::check_depth(run.state)?;
    let step = step_of_run(version_no);
    let input = match &state_run.input {
        Some(template) => Payload::from(cx.resolve(template, lookup)?),
        None => Payload::from(lookup.context.clone()),
    };
    child::check_input(&step, &input, run.state)?;
    Ok(Arc::new(Child {
        run: Child::id(run.state.run, &step, FIRST_ATTEMPT, cx.now),
        workflow: state_run.workflow.clone(),
        version: state_run.version,
        input,
        waits: true,
        due: None,
    }))
}

/// The context of a run: the input, the merged data and the values that were set.
pub(crate) fn context(state: &State) -> Payload {
    let Some(progress) = state.machine() else { return Payload::from(Value::Object(serde_json::Map::new())) };
    let is_hidden = |name: &String| name.starts_with("__");
    match progress.context.value() {
        Value::Object(fields) if fields.keys().any(is_hidden) => {
            let shown = fields.iter().filter(|(name, _)| !is_hidden(name));
            Payload::from(Value::Object(shown.map(|(name, value)| (name.clone(), value.clone())).collect()))
        }
        Value::Object(_) => progress.context.clone(),
        _ => Payload::from(Value::Object(serde_json::Map::new())),
    }
}

/// Checks that only the present state has open steps, except deliveries, and that every vote is for an action of it that needs votes.
pub(crate) fn check_counts(run: MachineRun<'_>) -> Result<(), String> {
    let version_no = run.progress.version_no;
    let prefixes = [format!("@after[{version_no}]."), format!("@run[{version_no}]")];
    let is_of_this_state = |step: &str| prefixes.iter().any(|prefix| step.starts_with(prefix));
    let mut steps = run.state.open.iter().filter(|(_, open)| open.delivery.is_none());
    if let Some((step, _)) = steps.find(|(step, _)| !is_of_this_state(step.as_str())) {
        return Err(format!("{step} is open at version {version_no}"));
    }
    let Some(place) = &run.progress.place else { return Ok(()) };
    for (actor, action) in &place.votes {
        let ballot = place.ballots.get(action).ok_or_else(|| format!("a vote for {action}, which has no quorum"))?;
        if ballot.of.as_ref().is_some_and(|voters| !voters.iter().any(|voter| actor.is_named(voter))) {
            return Err(format!("a vote of {actor}, who is not among the voters of {action}"));
        }
    }
    Ok(())
}
