//! The seam between a run and the style of its workflow.
//!
//! A style is a folder with one entrance. It answers the questions below, and code outside this file and the style's
//! folder does not ask which style a run has. A new style is a variant of [`Style`], of [`Progress`] and of
//! [`StepFacts`]; the compiler then lists every question that it must answer.
//!
//! **Invariant**: a state is used only together with the workflow that it was folded with, so that both have one
//! style. [`fold`] and [`State::from_snapshot`] reject any other pair.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actor::Actor;
use crate::code;
use crate::code::Report;
use crate::definition::Problem;
use crate::evaluate::{Evaluate, Fault};
use crate::failure::Failure;
use crate::graph;
use crate::graph::{Graph, NamedSecret};
use crate::ids::StepKey;
use crate::journal::{DELIVERIES_FORMAT, DecidedEnd, Entry, Event, Outcome};
use crate::kinds::{Kinds, TaskPart};
use crate::machine;
use crate::machine::{Act, Applied, Assignment, Machine, MachineRun, Rights};
use crate::meter::Meter;
use crate::payload::Payload;
use crate::publisher::Publisher;
use crate::records::Verb;
use crate::run::apply::{Fold, Folded};
use crate::run::decide::Draft;
use crate::run::task::{StepConfig, TaskSpec, WaitFacts};
use crate::run::{Cx, Open, Reply, State};
use crate::schema::Schema;
use crate::status::StepStatus;
use crate::story::StepStory;
use crate::time::Timestamp;
use crate::topics::EventRef;
use crate::workflow::Workflow;

/// How a workflow is written.
#[derive(Clone, Debug)]
pub enum Style {
    /// Nodes and edges; the server performs them.
    Graph(Graph),
    /// A function in a user's process. The server knows only its name.
    Code,
    /// States, and actions of persons that lead from one to another.
    Machine(Machine),
}

/// The name of a style, as it is stored and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StyleName {
    Graph,
    Code,
    Machine,
}

impl StyleName {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Graph => "graph",
            Self::Code => "code",
            Self::Machine => "machine",
        }
    }

    /// The style with a name; `None` for a style that this build does not know.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Graph, Self::Code, Self::Machine].into_iter().find(|style| style.as_str() == name)
    }

    /// Whether a version is a definition that users save. Otherwise workers register versions, by name only.
    pub fn has_definition(self) -> bool {
        match self {
            Self::Graph | Self::Machine => true,
            Self::Code => false,
        }
    }
}

/// The progress of a run through its workflow, in the terms of its style.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Progress {
    Graph(graph::Progress),
    Code(code::Progress),
    Machine(Box<machine::Progress>),
}

/// The facts about the steps of a run that its journal does not contain, in the terms of its style.
#[derive(Clone, Debug)]
pub(crate) enum StepFacts {
    Graph(graph::StepFacts),
    Code(code::StepFacts),
    Machine(machine::StepFacts),
}

/// The performer of a workflow's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerformerKind {
    Server,
    /// A worker, which holds the run's turn while it performs its steps.
    Worker,
}

impl Style {
    pub fn performer_kind(&self) -> PerformerKind {
        match self {
            Self::Graph(_) | Self::Machine(_) => PerformerKind::Server,
            Self::Code => PerformerKind::Worker,
        }
    }

    pub fn graph(&self) -> Option<&Graph> {
        match self {
            Self::Graph(graph) => Some(graph),
            Self::Code | Self::Machine(_) => None,
        }
    }

    pub fn machine(&self) -> Option<&Machine> {
        match self {
            Self::Machine(machine) => Some(machine),
            Self::Graph(_) | Self::Code => None,
        }
    }

    pub fn name(&self) -> StyleName {
        match self {
            Self::Graph(_) => StyleName::Graph,
            Self::Code => StyleName::Code,
            Self::Machine(_) => StyleName::Machine,
        }
    }

    /// The lowest format of an item of a run: a build that does not know a style must not own its runs, even before
    /// their first entry of a newer kind.
    pub fn format(&self) -> u32 {
        match self {
            Self::Graph(_) | Self::Code => 1,
            Self::Machine(machine) if machine.has_deliveries() => DELIVERIES_FORMAT,
            Self::Machine(_) => 2,
        }
    }

    /// A problem for each part that needs a permission which the publisher does not have.
    pub fn denied_parts(&self, kinds: &dyn Kinds, publisher: &Publisher) -> Vec<Problem> {
        match self {
            Self::Graph(graph) => graph.denied_nodes(kinds, publisher),
            Self::Code | Self::Machine(_) => Vec::new(),
        }
    }

    /// The definition that is stored with the workflow, if there is one.
    pub fn definition(&self) -> Option<&Value> {
        match self {
            Self::Graph(graph) => Some(graph.definition()),
            Self::Machine(machine) => Some(machine.definition()),
            Self::Code => None,
        }
    }

    /// The number of days for which an ended run is kept, if the definition states it.
    pub fn retention_days(&self) -> Option<u32> {
        match self {
            Self::Graph(graph) => graph.retention_days(),
            Self::Machine(machine) => machine.retention_days(),
            Self::Code => None,
        }
    }

    /// The parts of the definition that handlers perform.
    pub fn task_parts(&self) -> Vec<TaskPart> {
        match self {
            Self::Graph(graph) => graph.task_parts(),
            Self::Machine(machine) => machine.task_parts(),
            Self::Code => Vec::new(),
        }
    }

    /// The secrets that the definition names.
    pub fn named_secrets(&self) -> Vec<NamedSecret> {
        match self {
            Self::Graph(graph) => graph.named_secrets(),
            Self::Machine(machine) => machine.named_secrets(),
            Self::Code => Vec::new(),
        }
    }

    /// The schema in the definition for the input of a new run: of a machine, the schema of the context.
    pub fn input_schema(&self) -> Option<&Arc<Schema>> {
        match self {
            Self::Graph(graph) => graph.input_schema(),
            Self::Machine(machine) => machine.context_schema(),
            Self::Code => None,
        }
    }

    /// The faults of the input of a new run. The schema is the one of the version; a worker registers that of a code
    /// workflow.
    pub fn check_input(&self, schema: Option<&Schema>, input: &Value) -> Vec<Fault> {
        match self {
            Self::Graph(_) | Self::Code => schema.map(|schema| schema.check_input(input)).unwrap_or_default(),
            Self::Machine(_) => machine::check_input(schema, input),
        }
    }

    /// The name of the part of the workflow that a step runs: a graph's node, without the iterations around it, or a
    /// part of a machine's definition, without the number of the transition.
    pub fn name_of<'a>(&self, step: &'a StepKey) -> Cow<'a, str> {
        match self {
            Self::Graph(_) => step.node_name().into(),
            Self::Code => step.as_str().into(),
            Self::Machine(_) => machine::name_of(step),
        }
    }

    /// Whether a step writes records or links, which outlive the run.
    pub fn writes_records(&self, step: &StepKey) -> bool {
        match self {
            Self::Graph(graph) => graph::step_kind(graph, step).and_then(Verb::from_name).is_some(),
            Self::Code | Self::Machine(_) => false,
        }
    }

    /// Whether the definition names the callers that may start a run. Otherwise, callers that may manage runs start it.
    pub fn decides_who_starts(&self) -> bool {
        match self {
            Self::Graph(_) | Self::Code => false,
            Self::Machine(_) => true,
        }
    }

    /// Whether a caller may start a run with this input.
    pub fn may_start(&self, by: &Actor, rights: &Rights, input: &Payload, cx: Cx<'_>) -> bool {
        match self {
            Self::Graph(_) | Self::Code => rights.can_manage,
            Self::Machine(machine) => machine::may_start(machine, by, rights, input, cx),
        }
    }

    /// The roles and names that may start a run, as the definition has them; empty if it does not name them.
    pub fn required_to_start(&self) -> Vec<String> {
        match self {
            Self::Graph(_) | Self::Code => Vec::new(),
            Self::Machine(machine) => machine::required_to_start(machine),
        }
    }

    /// Why values cannot be set in the context of a run, or `None` if they can.
    pub(crate) fn refuse_context(&self) -> Option<&'static str> {
        match self {
            Self::Graph(_) | Self::Machine(_) => None,
            Self::Code => Some("a run of a code workflow has no context: send it a signal instead"),
        }
    }

    /// Why a run cannot be retried, whatever its status is; or `None` if it can.
    pub(crate) fn refuse_retry(&self) -> Option<&'static str> {
        match self {
            Self::Graph(_) | Self::Code => None,
            Self::Machine(_) => Some(
                "a run of a state machine has no steps that could be retried: start another one from an earlier entry \
                 with POST /v1/runs/{id}/fork",
            ),
        }
    }

    /// Checks the result of a step, in addition to the checks of every style.
    pub(crate) fn check_result(&self, step: &StepKey, outcome: Outcome) -> Result<Outcome, Failure> {
        match self {
            Self::Graph(graph) => graph::check_handle(graph, step, outcome),
            Self::Code | Self::Machine(_) => Ok(outcome),
        }
    }

    /// The failure of a child as the failure of the step that started it.
    pub(crate) fn child_failure(&self, failure: Failure) -> Failure {
        match self {
            Self::Graph(_) => failure,
            // The server does not retry a call: the function or the machine decides.
            Self::Code | Self::Machine(_) => Failure { retryable: false, ..failure },
        }
    }
}

impl Progress {
    /// The progress of a run before its first entry.
    pub(crate) fn new(style: &Style) -> Self {
        match style {
            Style::Graph(_) => Self::Graph(graph::Progress::default()),
            Style::Code => Self::Code(code::Progress::default()),
            Style::Machine(_) => Self::Machine(Box::default()),
        }
    }

    pub(crate) fn is_of(&self, style: &Style) -> bool {
        match self {
            Self::Graph(_) => matches!(style, Style::Graph(_)),
            Self::Code(_) => matches!(style, Style::Code),
            Self::Machine(_) => matches!(style, Style::Machine(_)),
        }
    }

    pub(crate) fn graph(&self) -> Option<&graph::Progress> {
        match self {
            Self::Graph(progress) => Some(progress),
            Self::Code(_) | Self::Machine(_) => None,
        }
    }

    pub(crate) fn code(&self) -> Option<&code::Progress> {
        match self {
            Self::Graph(_) | Self::Machine(_) => None,
            Self::Code(progress) => Some(progress),
        }
    }

    pub(crate) fn machine(&self) -> Option<&machine::Progress> {
        match self {
            Self::Graph(_) | Self::Code(_) => None,
            Self::Machine(progress) => Some(progress),
        }
    }

    /// The answer to the last request of a person.
    pub(crate) fn answer(&self) -> Option<&Applied> {
        self.machine()?.answer()
    }

    /// Whether a transition of the server would be part of the answer to the last request, if it followed in its item.
    pub(crate) fn has_open_answer(&self) -> bool {
        self.machine().is_some_and(machine::Progress::has_open_answer)
    }

    /// The name of the state and its versionNo; none for a style without states, and before the first state.
    pub(crate) fn place(&self) -> Option<(&str, u32)> {
        let progress = self.machine()?;
        Some((progress.state_name()?, progress.version_no()))
    }

    /// The end that was decided with the last transition, and follows after the last delivery.
    pub(crate) fn decided_end(&self) -> Option<&DecidedEnd> {
        self.machine()?.decided_end()
    }

    /// The seq of the last transition.
    pub(crate) fn moved_at(&self) -> Option<u64> {
        Some(self.machine()?.last_transition()?.seq)
    }

    /// Whether a run without an open step waits for an input. Otherwise it has something to do.
    pub(crate) fn waits_without_steps(&self) -> bool {
        match self {
            Self::Graph(_) | Self::Code(_) => false,
            Self::Machine(_) => true,
        }
    }

    /// Whether a step that is not open may be performed now.
    pub(crate) fn has_ready_steps(&self) -> bool {
        match self {
            Self::Graph(progress) => progress.has_ready_steps(),
            Self::Code(progress) => progress.has_ready_steps(),
            Self::Machine(progress) => progress.has_ready_steps(),
        }
    }

    /// The approximate memory of the progress beside the JSON of the context, in bytes.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Graph(progress) => progress.weight,
            Self::Code(progress) => progress.weight(),
            Self::Machine(progress) => progress.weight(),
        }
    }

    /// Bytes of JSON for the context.
    pub(crate) fn context_bytes(&self) -> usize {
        match self {
            Self::Graph(progress) => progress.bytes,
            Self::Code(progress) => progress.bytes,
            Self::Machine(progress) => progress.context.size(),
        }
    }

    /// Whether a retry of the failed run would repeat any step.
    pub(crate) fn can_retry(&self) -> bool {
        match self {
            Self::Graph(progress) => progress.has_failed_steps(),
            // A retry runs the function again in any case.
            Self::Code(_) => true,
            Self::Machine(_) => false,
        }
    }

    /// The failure of a run, with the step that caused it if readers cannot find that step among the failed steps.
    pub(crate) fn run_failure(&self, failure: &Failure, step: Option<&StepKey>) -> Failure {
        match self {
            Self::Graph(_) | Self::Machine(_) => Failure { step: None, attempts: None, ..failure.clone() },
            Self::Code(progress) => {
                let attempts = step.and_then(|step| progress.step(step)).map(|step| step.attempt);
                Failure { step: step.cloned(), attempts, ..failure.clone() }
            }
        }
    }
}

impl StepFacts {
    /// The facts before the first entry. If the workflow cannot be read, those of a graph.
    pub(crate) fn new(workflow: Option<&Arc<Workflow>>) -> Self {
        match workflow.map(|workflow| &workflow.style) {
            Some(Style::Graph(_)) | None => Self::Graph(graph::StepFacts::new(workflow)),
            Some(Style::Code) => Self::Code(code::StepFacts::default()),
            Some(Style::Machine(_)) => workflow.map_or_else(
                || Self::Graph(graph::StepFacts::new(None)),
                |workflow| Self::Machine(machine::StepFacts::new(workflow)),
            ),
        }
    }

    /// Reads the kind of each step from a later state, for a story that does not begin with the first entry.
    pub(crate) fn learn(&mut self, state: &State) {
        match self {
            Self::Graph(_) => {}
            Self::Code(facts) => facts.learn(state),
            Self::Machine(facts) => facts.learn(state),
        }
    }

    /// Records the kind of a step, by an entry about it.
    pub(crate) fn note(&mut self, step: &StepKey, event: &Event) {
        match self {
            Self::Graph(_) => {}
            Self::Code(facts) => facts.note(step, event),
            Self::Machine(facts) => facts.note(step, event),
        }
    }

    /// Whether only the whole journal shows which entry of a step is its first.
    pub(crate) fn needs_whole_journal(&self) -> bool {
        match self {
            Self::Graph(_) | Self::Machine(_) => false,
            Self::Code(_) => true,
        }
    }

    /// The name of a step without the iterations around it, as [`Style::name_of`].
    pub(crate) fn name_of<'a>(&self, step: &'a StepKey) -> Cow<'a, str> {
        match self {
            Self::Graph(_) => step.node_name().into(),
            Self::Code(_) => step.as_str().into(),
            Self::Machine(_) => machine::name_of(step),
        }
    }

    /// Whether a step is closed when a machine leaves its state.
    pub(crate) fn is_of_state(&self, step: &StepKey) -> bool {
        match self {
            Self::Graph(_) | Self::Code(_) => false,
            Self::Machine(_) => machine::is_of_state(step),
        }
    }

    /// The kind of a step, if it is known.
    pub(crate) fn kind(&self, step: &StepKey) -> Option<&str> {
        match self {
            Self::Graph(facts) => facts.kind(step),
            Self::Code(facts) => facts.kind(step),
            Self::Machine(facts) => facts.kind(step),
        }
    }

    /// When the attempt of an entry began, if its beginning has no entry.
    pub(crate) fn began_at(&self, entry: &Entry) -> Option<Timestamp> {
        match self {
            Self::Graph(_) | Self::Machine(_) => None,
            Self::Code(_) => code::began_at(entry),
        }
    }

    /// The end of a sleep that began before the first entry of the story.
    pub(crate) fn sleeps_until(&self, step: &StepKey) -> Option<Timestamp> {
        match self {
            Self::Graph(_) | Self::Machine(_) => None,
            Self::Code(facts) => facts.sleeps_until(step),
        }
    }

    /// Whether steps contain other steps, which shows in their names.
    pub(crate) fn are_nested(&self) -> bool {
        match self {
            Self::Graph(_) => true,
            // Users choose the names: brackets in them have no meaning.
            Self::Code(_) => false,
            // The brackets contain a version.
            Self::Machine(_) => false,
        }
    }

    /// Whether a step that is skipped has not begun. A machine skips deliveries that its original has begun.
    pub(crate) fn skips_unbegun_steps(&self) -> bool {
        match self {
            Self::Graph(_) | Self::Code(_) => true,
            Self::Machine(_) => false,
        }
    }

    /// Whether the run continued after a step failed. Such a failure of a loop or scope stays when the run is retried.
    pub(crate) fn is_failure_handled(&self, step: &StepKey) -> bool {
        match self {
            Self::Graph(facts) => facts.is_failure_handled(step),
            Self::Code(_) | Self::Machine(_) => false,
        }
    }

    /// The steps that a retry of the run reopens, by their first entry, with their new status. `failed_step` is the
    /// step that caused the failure of the run.
    pub(crate) fn reopened(
        &self,
        steps: &BTreeMap<u64, StepStory>,
        failed_step: Option<&StepStory>,
    ) -> Vec<(u64, StepStatus)> {
        match self {
            Self::Graph(_) => graph::reopened(steps),
            Self::Code(_) => code::reopened(steps, failed_step),
            // A run of a machine is not retried.
            Self::Machine(_) => Vec::new(),
        }
    }
}

/// Folds one entry into the progress and the open steps of a run.
pub(crate) fn fold(style: &Style, progress: &mut Progress, fold: Fold<'_>) -> Folded {
    match (style, progress) {
        (Style::Graph(graph), Progress::Graph(progress)) => graph::fold(graph, progress, fold),
        (Style::Code, Progress::Code(progress)) => code::fold(progress, fold),
        (Style::Machine(machine), Progress::Machine(progress)) => machine::fold(machine, progress, fold),
        (Style::Graph(_), Progress::Code(_) | Progress::Machine(_))
        | (Style::Code, Progress::Graph(_) | Progress::Machine(_))
        | (Style::Machine(_), Progress::Graph(_) | Progress::Code(_)) => {
            Err("the run is of a workflow of another style")
        }
    }
}

/// The events that follow from the state alone; empty when nothing is ready.
pub(crate) fn next(workflow: &Workflow, state: &State, cx: Cx<'_>) -> Vec<Event> {
    match &workflow.style {
        Style::Graph(graph) => graph::next(graph::GraphRun::from_state(workflow, graph, state), cx),
        Style::Code => code::next(state, cx),
        Style::Machine(machine) => machine::next(MachineRun::from_state(workflow, machine, state), cx),
    }
}

/// The events that follow when the timer of an open step is due; none for a step without one.
pub(crate) fn on_timer(workflow: &Workflow, state: &State, step: &StepKey, open: &Open, cx: Cx<'_>) -> Vec<Event> {
    match &workflow.style {
        Style::Graph(_) => graph::on_timer(step.clone(), open).into_iter().collect(),
        Style::Code => code::on_timer(step.clone(), open).into_iter().collect(),
        Style::Machine(machine) => machine::on_timer(MachineRun::from_state(workflow, machine, state), step, open, cx),
    }
}

/// A request to perform an action of a machine, or to vote for it.
pub(crate) fn on_act(draft: &mut Draft<'_>, act: &Act) -> Reply {
    match &draft.workflow.style {
        Style::Machine(machine) => machine::on_act(draft, machine, act),
        Style::Graph(_) | Style::Code => refuse_request(),
    }
}

/// A request to assign the state of a machine.
pub(crate) fn on_assignment(draft: &mut Draft<'_>, assignment: Assignment) -> Reply {
    match &draft.workflow.style {
        Style::Machine(machine) => machine::on_assignment(draft, machine, assignment),
        Style::Graph(_) | Style::Code => refuse_request(),
    }
}

fn refuse_request() -> Reply {
    let message = "only runs of state machines have actions: send this run a signal instead, with POST \
                   /v1/runs/{id}/signals/{event}";
    Reply::refused("INVALID_TRANSITION", message)
}

/// Records a signal. A signal without an open wait is buffered, if its sender requests it and the style supports it,
/// and otherwise ignored.
pub(crate) fn on_signal(draft: &mut Draft<'_>, event: &str, payload: Payload, is_kept: bool) -> Reply {
    match &draft.workflow.style {
        Style::Graph(graph) => graph::on_signal(draft, graph, event, payload, is_kept),
        Style::Code => code::on_signal(draft, event, payload, is_kept),
        Style::Machine(_) => {
            let message = "a run of a state machine waits for actions, not for signals: send POST \
                           /v1/runs/{id}/transitions with an action instead";
            Reply::refused("INVALID_TRANSITION", message)
        }
    }
}

/// Records a published event for every open wait that it matches.
pub(crate) fn on_event(draft: &mut Draft<'_>, event: &EventRef, data: &Payload) -> Reply {
    match &draft.workflow.style {
        Style::Graph(_) => graph::on_event(draft, event, data),
        Style::Code => code::on_event(draft, event, data),
        Style::Machine(_) => Reply::ignored("a run of a state machine waits for no events"),
    }
}

/// A worker takes the run's turn.
pub(crate) fn on_turn_begun(draft: &mut Draft<'_>, worker: String) -> Reply {
    match draft.workflow.performer_kind() {
        PerformerKind::Server => Reply::ignored("the run needs no worker"),
        PerformerKind::Worker => code::on_turn_begun(draft, worker),
    }
}

/// The worker that holds a turn was lost.
pub(crate) fn on_turn_lost(draft: &mut Draft<'_>, turn: u32) -> Reply {
    match draft.workflow.performer_kind() {
        PerformerKind::Server => Reply::ignored("the turn has ended"),
        PerformerKind::Worker => code::on_turn_lost(draft, turn),
    }
}

/// A report of the worker that holds a turn.
pub(crate) fn on_report(draft: &mut Draft<'_>, turn: u32, report: Report) -> Reply {
    match draft.workflow.performer_kind() {
        PerformerKind::Server => Reply::refused("FENCED", format!("turn {turn} has ended: the run needs no worker")),
        PerformerKind::Worker => code::on_report(draft, turn, report),
    }
}

/// The status of a step that is not open; `None` for a step that was not reached.
pub(crate) fn step_status(workflow: &Workflow, state: &State, step: &StepKey) -> Option<StepStatus> {
    match &workflow.style {
        Style::Graph(graph) => graph::GraphRun::from_state(workflow, graph, state).step_status(step),
        Style::Code => code::step_status(state, step),
        // The steps of a state are dropped when it is left.
        Style::Machine(_) => None,
    }
}

/// The kind of a step that an entry has begun, if it is known.
pub(crate) fn step_kind<'a>(workflow: &'a Workflow, state: &State, step: &StepKey) -> Option<&'a str> {
    match &workflow.style {
        Style::Graph(graph) => graph::step_kind(graph, step),
        Style::Code => code::step_kind(state, step),
        Style::Machine(machine) => machine::step_kind(machine, step),
    }
}

/// The variables of a run as one JSON object.
pub(crate) fn context(workflow: &Workflow, state: &State) -> Payload {
    match &workflow.style {
        Style::Graph(graph) => graph::GraphRun::from_state(workflow, graph, state).context(),
        Style::Code => code::context(state),
        Style::Machine(_) => machine::context(state),
    }
}

/// The variables of each iteration in progress, by the iteration's name.
pub(crate) fn scopes(workflow: &Workflow, state: &State) -> Vec<(String, Payload)> {
    match &workflow.style {
        Style::Graph(graph) => graph::GraphRun::from_state(workflow, graph, state).scopes(),
        Style::Code | Style::Machine(_) => Vec::new(),
    }
}

/// What the definition says about the wait of a step; none if it says nothing.
pub(crate) fn wait_facts<'w>(workflow: &'w Workflow, step: &StepKey) -> Option<WaitFacts<'w>> {
    match &workflow.style {
        Style::Graph(graph) => graph::wait_facts(graph, step),
        Style::Code | Style::Machine(_) => None,
    }
}

/// Describes an open task for its handler.
pub(crate) fn describe_task(
    workflow: &Workflow,
    state: &State,
    step: &StepKey,
    evaluate: &dyn Evaluate,
    meter: &Meter,
) -> Result<TaskSpec, Failure> {
    match &workflow.style {
        Style::Graph(graph) => {
            graph::describe_task(graph::GraphRun::from_state(workflow, graph, state), step, evaluate, meter)
        }
        Style::Machine(machine) => machine::describe_task(MachineRun::from_state(workflow, machine, state), step),
        Style::Code => Err(TaskSpec::unknown(step)),
    }
}

/// The config of a step, as it is written and as it is evaluated in a state.
pub(crate) fn describe_config(
    workflow: &Workflow,
    state: &State,
    step: &StepKey,
    evaluate: &dyn Evaluate,
    meter: &Meter,
) -> Option<StepConfig> {
    match &workflow.style {
        Style::Graph(graph) => {
            graph::describe_config(graph::GraphRun::from_state(workflow, graph, state), step, evaluate, meter)
        }
        Style::Code | Style::Machine(_) => None,
    }
}

/// Compares the counts of the fold with the counts found by visiting everything, for the laws.
pub(crate) fn check_counts(workflow: &Workflow, state: &State) -> Result<(), String> {
    match &workflow.style {
        Style::Graph(graph) => graph::GraphRun::from_state(workflow, graph, state).check_counts(),
        Style::Code => code::check_counts(state),
        Style::Machine(machine) => machine::check_counts(MachineRun::from_state(workflow, machine, state)),
    }
}
