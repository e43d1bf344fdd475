//! The actions of the present state, as one caller sees them.

use serde::Serialize;
use serde_json::Value;

use super::authorize::{authorize, required};
use super::conditions::Performance;
use super::examine::{Refusal, check_phase};
use super::model::{Action, Needs};
use super::run::MachineRun;
use super::{FieldFault, Rights, Tally, code};
use crate::actor::Actor;
use crate::run::{Cx, State};
use crate::workflow::Workflow;

/// An action of the present state.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionView {
    pub action: String,
    pub title: Option<String>,
    /// The states that it may lead to, in the order of its branches.
    pub to: Vec<String>,
    /// Whether this caller may perform it now, with the data that it needs.
    pub open: bool,
    pub needs: Needs,
    /// Its votes, if it needs several.
    pub quorum: Option<Tally>,
    /// The requirements of the action, as the definition has them.
    pub required: Vec<String>,
    /// Why this caller may not perform it now.
    pub reasons: Vec<Reason>,
}

/// A reason for which a request would be rejected.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reason {
    pub code: String,
    pub message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldFault>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explanation: Vec<Value>,
}

impl From<Refusal> for Reason {
    fn from(refusal: Refusal) -> Self {
        let Refusal { code, message, errors, required, explanation } = refusal;
        Self { code: code.into_owned(), message, errors, required, explanation }
    }
}

/// The actions of the present state for a caller; none for a run that is not in a state of a machine.
pub fn actions(workflow: &Workflow, state: &State, by: &Actor, rights: &Rights, cx: Cx<'_>) -> Vec<ActionView> {
    let Some(run) = MachineRun::find(workflow, state) else { return Vec::new() };
    let Some((_, definition)) = run.place() else { return Vec::new() };
    definition.on.iter().map(|action| view(run, action, by, rights, cx)).collect()
}

fn view(run: MachineRun<'_>, action: &Action, by: &Actor, rights: &Rights, cx: Cx<'_>) -> ActionView {
    let mut to = Vec::<String>::new();
    for branch in &action.branches {
        let name = &run.machine.state(branch.to).name;
        if !to.contains(name) {
            to.push(name.clone());
        }
    }
    let reasons = reasons(run, action, by, rights, cx);
    ActionView {
        action: action.name.clone(),
        title: action.title.clone(),
        to,
        open: reasons.is_empty(),
        needs: action.needs.clone(),
        quorum: run.progress.tally(&action.name),
        required: required(action),
        reasons,
    }
}

/// The reasons that do not depend on the parts of a request.
fn reasons(run: MachineRun<'_>, action: &Action, by: &Actor, rights: &Rights, cx: Cx<'_>) -> Vec<Reason> {
    let mut refusals = Vec::new();
    refusals.extend(check_phase(run).err());
    refusals.extend(
        authorize(run, action, by, rights, cx).err().map(|denial| Refusal {
            required: denial.required,
            ..Refusal::new(code::PERMISSION_DENIED, denial.message)
        }),
    );
    let has_voted = run.progress.place.as_ref().is_some_and(|place| place.votes.get(by) == Some(&action.name));
    if has_voted {
        let message = format!("you have already voted for {} in this state", action.name);
        refusals.push(Refusal::new(code::ALREADY_VOTED, message));
    }
    // A condition may read the data of the request, which is not known yet.
    if action.needs.data.is_empty() {
        let performance = Performance { action: &action.name, by, rights: Some(rights), comment: None, data: None };
        let variables = run.variables(&performance, cx);
        let context = run.progress.context.value();
        // A vote is accepted whatever the branches are, unless it is the last one.
        let has_branch = || match action.quorum {
            Some(_) => Ok(()),
            None => variables.choose(action, context).map(drop),
        };
        refusals.extend(variables.check(action, context).and_then(|()| has_branch()).err().map(Refusal::from));
    }
    refusals.into_iter().map(Reason::from).collect()
}

impl Needs {
    /// Whether a request must have a comment.
    pub fn needs_comment(&self) -> bool {
        self.comment
    }

    /// Whether a request must have the digest of the values that were shown.
    pub fn needs_shown(&self) -> bool {
        self.shown
    }

    /// The number of files that a request must have at least.
    pub fn files_min(&self) -> u32 {
        self.files
    }

    /// Paths that the data of a request must contain.
    pub fn data_paths(&self) -> &[String] {
        &self.data
    }
}
