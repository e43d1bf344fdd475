//! The activity of a run at one moment, without its context.

use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, StepKey};
use everstep_core::machine::{self, Situation, Tally};
use everstep_core::payload::Payload;
use everstep_core::run::{OpenActivity, OpenStep, State, task};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::workflow::Workflow;

/// The maximum number of open steps in a snapshot.
const OPEN_STEPS_MAX: usize = 100;

/// The activity of a run at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSnapshot {
    /// The seq of the last entry that is part of it.
    pub seq: u64,
    pub status: Status,
    /// Why it is paused or has failed.
    pub failure: Option<Failure>,
    pub paused_at: Option<Timestamp>,
    /// The steps in progress, loops and scopes last.
    pub open: Vec<StepSnapshot>,
    /// The number of open steps beyond those.
    pub more: usize,
    /// The worker that holds the run's turn.
    pub worker: Option<String>,
    /// The place of a run of a state machine.
    pub machine: Option<MachineSnapshot>,
}

/// The place of a run in its state machine, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineSnapshot {
    pub situation: Situation,
    /// When the next timer of the state is due.
    pub due: Option<Timestamp>,
    /// The persons to whom the state is assigned.
    pub assigned: Vec<String>,
    /// The votes of each action that needs several.
    pub votes: Vec<Tally>,
}

/// A step in progress.
#[derive(Clone, Debug, PartialEq)]
pub struct StepSnapshot {
    pub step: StepKey,
    pub attempt: u32,
    pub since: Option<Timestamp>,
    /// When it continues without an input.
    pub due: Option<Timestamp>,
    pub activity: StepActivity,
}

/// A wait of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinedWait {
    /// Whether a person decides.
    pub is_approval: bool,
    /// The name of the step, for people.
    pub title: Option<String>,
}

/// How far back a wait looks for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookBackSnapshot {
    pub since: Timestamp,
    /// Whether it has examined as many events as it may, without a match: see [`Engine::count_look_back`].
    ///
    /// [`Engine::count_look_back`]: crate::Engine::count_look_back
    pub is_exhausted: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StepActivity {
    /// A handler performs it.
    Task,
    /// It sleeps.
    Delay,
    /// It waits for a signal whose payload contains the pattern.
    Wait {
        event: String,
        pattern: Payload,
        /// What the definition says about it; none for a wait of code.
        defined: Option<DefinedWait>,
        /// The events from an earlier time on that it also accepts.
        look_back: Option<LookBackSnapshot>,
    },
    /// It waits for the end, or the start, of another run.
    Child { run: RunId },
    /// It failed and is retried.
    Retry,
    /// Steps inside it are in progress.
    Body,
    /// It continues at once.
    Soon,
}

impl RunSnapshot {
    pub fn from_state(workflow: &Workflow, state: &State) -> Self {
        let is_body = |open: &OpenStep<'_>| matches!(open.activity, OpenActivity::Body { .. });
        let all = || state.open().filter(|_| !state.has_ended());
        let steps = all().filter(|open| !is_body(open)).chain(all().filter(is_body));
        let count = all().count();
        let open: Vec<_> = steps.take(OPEN_STEPS_MAX).map(|open| StepSnapshot::from_open(workflow, &open)).collect();
        Self {
            seq: state.seq,
            status: state.status(),
            failure: state.failure().cloned(),
            paused_at: state.paused_at(),
            more: count - open.len(),
            open,
            worker: None,
            machine: MachineSnapshot::from_state(workflow, state),
        }
    }
}

impl MachineSnapshot {
    /// The place of a run; none if it is not in a state of a machine.
    pub fn from_state(workflow: &Workflow, state: &State) -> Option<Self> {
        let progress = state.machine()?;
        Some(Self {
            situation: machine::situation(workflow, state)?,
            due: state.next_due_of_state(),
            assigned: progress.assigned().to_vec(),
            votes: progress.votes(),
        })
    }
}

impl StepSnapshot {
    fn from_open(workflow: &Workflow, open: &OpenStep<'_>) -> Self {
        let (activity, due) = match &open.activity {
            OpenActivity::Task => (StepActivity::Task, None),
            OpenActivity::Delay { due } => (StepActivity::Delay, *due),
            OpenActivity::Wait { event, pattern, due, since, .. } => {
                let defined = task::wait_facts(workflow, open.step)
                    .map(|facts| DefinedWait { is_approval: facts.is_approval, title: facts.title.map(str::to_owned) });
                let look_back = since.map(|since| LookBackSnapshot { since, is_exhausted: false });
                let (event, pattern) = ((*event).to_owned(), (*pattern).clone());
                (StepActivity::Wait { event, pattern, defined, look_back }, *due)
            }
            OpenActivity::Child(child) => (StepActivity::Child { run: child.run }, child.due),
            OpenActivity::Backoff { due } => (StepActivity::Retry, *due),
            OpenActivity::Body { due } => (StepActivity::Body, *due),
            OpenActivity::Soon => (StepActivity::Soon, None),
        };
        Self { step: open.step.clone(), attempt: open.attempt, since: Some(open.since), due, activity }
    }
}
