//! What a machine's run waits for, as data for a sentence: "is in review since …: APPROVE by Manager (1 of 3 votes) or
//! REJECT; goes to escalated at …".

use super::Tally;
use super::authorize::admitted;
use super::run::{MachineRun, step_of_run};
use super::timers::next_exit;
use crate::ids::RunId;
use crate::run::State;
use crate::time::Timestamp;
use crate::workflow::Workflow;

/// The place of a machine, and the ways out of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Situation {
    pub state: String,
    pub title: Option<String>,
    pub version_no: u32,
    pub since: Timestamp,
    /// The actions of the state, in the order of the definition.
    pub choices: Vec<Choice>,
    /// The next time at which a timer moves the machine.
    pub exit: Option<Exit>,
    /// The run that the state waits for.
    pub child: Option<RunId>,
    /// The number of side effects that are still to be performed.
    pub deliveries: usize,
}

/// An action that a person may perform.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub action: String,
    pub title: Option<String>,
    /// The roles and names that may perform it, as the definition has them; empty for every caller.
    pub by: Vec<String>,
    /// Its votes, if it needs several.
    pub votes: Option<Tally>,
}

/// A timer that moves the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Exit {
    pub at: Timestamp,
    /// The state that it leads to, unless a condition decides it.
    pub to: Option<String>,
}

/// The situation of a run that is in a state of a machine.
pub fn situation(workflow: &Workflow, state: &State) -> Option<Situation> {
    let run = MachineRun::find(workflow, state)?;
    let (place, definition) = run.place()?;
    let choices = definition.on.iter().map(|action| Choice {
        action: action.name.clone(),
        title: action.title.clone(),
        by: admitted(action),
        votes: run.progress.tally(&action.name),
    });
    let step = step_of_run(run.progress.version_no);
    let child = state.open.get(&step).and_then(|open| open.own_child(state.run, &step)).map(|child| child.run);
    Some(Situation {
        state: place.state.clone(),
        title: definition.title.clone(),
        version_no: run.progress.version_no,
        since: place.last.at,
        choices: choices.collect(),
        exit: next_exit(run).map(|(at, to)| Exit { at, to: to.map(str::to_owned) }),
        child,
        deliveries: state.open_deliveries(),
    })
}
