//! What the styles answer differently about a step.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::read::StepContext;
use super::update::Update;
use crate::code::{Progress, StepKind};
use crate::graph::{Graph, NodeKind, OnError, OnItemError, StepPath};
use crate::ids::StepKey;
use crate::journal::{Dispatch, Entry, Event, TimerPurpose};
use crate::run::{OpenActivity, State};
use crate::style::Style;
use crate::time::Timestamp;
use crate::workflow::Workflow;

/// How the steps of a run are named, and what is known about them beside the journal.
#[derive(Clone, Debug)]
pub(super) enum StoryStyle {
    /// Steps are nodes. The workflow is none where this build cannot read it.
    Graph(Option<Arc<Workflow>>),
    /// Steps have any name. The first entry about a step says what it is.
    Code(CodeSteps),
}

#[derive(Clone, Debug, Default)]
pub(super) struct CodeSteps {
    kinds: BTreeMap<StepKey, StepKind>,
    /// Until when steps sleep that began to sleep before the first entry of the story.
    sleeping: BTreeMap<StepKey, Timestamp>,
}

impl StoryStyle {
    /// The style of a run's story; that of a graph while the workflow cannot be read.
    pub(super) fn new(workflow: Option<&Arc<Workflow>>) -> Self {
        match workflow.map(|workflow| &workflow.style) {
            Some(Style::Code) => Self::Code(CodeSteps::default()),
            Some(Style::Graph(_)) | None => Self::Graph(workflow.cloned()),
        }
    }

    /// Takes from a later state what each step is, for a story that does not begin with the first entry.
    pub(super) fn learn(&mut self, state: &State) {
        match self {
            Self::Graph(_) => {}
            Self::Code(steps) => {
                let known = state.code().into_iter().flat_map(Progress::steps);
                steps.kinds.extend(known.map(|(key, step)| (key.clone(), step.kind)));
                let sleeping = state.open().filter_map(|open| match open.activity {
                    OpenActivity::Delay { due } => Some((open.step.clone(), due?)),
                    OpenActivity::Task
                    | OpenActivity::Wait { .. }
                    | OpenActivity::Child(_)
                    | OpenActivity::Backoff { .. }
                    | OpenActivity::Body { .. }
                    | OpenActivity::Soon => None,
                });
                steps.sleeping.extend(sleeping);
            }
        }
    }

    /// Until when a step sleeps that began to sleep before the first entry of the story.
    pub(super) fn sleeps_until(&self, key: &StepKey) -> Option<Timestamp> {
        match self {
            Self::Graph(_) => None,
            Self::Code(steps) => steps.sleeping.get(key).copied(),
        }
    }

    /// Remembers what a step is, by an entry about it.
    pub(super) fn note(&mut self, key: &StepKey, event: &Event) {
        match self {
            Self::Graph(_) => {}
            Self::Code(steps) => {
                if let Some(kind) = first_kind(event).filter(|_| !steps.kinds.contains_key(key)) {
                    steps.kinds.insert(key.clone(), kind);
                }
            }
        }
    }

    /// Whether only the whole journal tells which entry of a step is its first.
    pub(super) fn needs_whole_journal(&self) -> bool {
        match self {
            Self::Graph(_) => false,
            Self::Code(_) => true,
        }
    }

    /// A step's name without the iterations around it.
    pub(super) fn node<'a>(&self, key: &'a StepKey) -> &'a str {
        match self {
            Self::Graph(_) => key.place(),
            Self::Code(_) => key.as_str(),
        }
    }

    /// What kind of step it is, if that is known.
    pub(super) fn kind(&self, key: &StepKey) -> Option<&str> {
        match self {
            Self::Graph(_) => self.graph()?.find_node(key.place()).map(|node| node.kind.name()),
            Self::Code(steps) => steps.kinds.get(key).map(|kind| name(*kind)),
        }
    }

    /// When an attempt began that no entry has begun: a worker reports a step of code when it is over.
    pub(super) fn began_at(&self, entry: &Entry) -> Option<Timestamp> {
        match self {
            Self::Graph(_) => None,
            Self::Code(_) => match &entry.event {
                Event::StepCompleted { outcome, .. } => outcome.started_at.or(Some(entry.at)),
                Event::StepFailed { started_at, .. } => started_at.or(Some(entry.at)),
                Event::RunStarted { .. }
                | Event::StepDispatched { .. }
                | Event::StepSkipped { .. }
                | Event::TimerSet { .. }
                | Event::TimerFired { .. }
                | Event::ContextSet { .. }
                | Event::WaitOpened { .. }
                | Event::WaitResolved { .. }
                | Event::SignalBuffered { .. }
                | Event::TurnStarted { .. }
                | Event::TurnLost { .. }
                | Event::RunPaused { .. }
                | Event::RunResumed
                | Event::RunRetried
                | Event::RunCompleted { .. }
                | Event::RunFailed { .. }
                | Event::RunCancelled { .. } => None,
            },
        }
    }

    /// Whether the run continued after a step failed, by an `error` edge or with the loop's next item. Such a failure
    /// of a loop or scope stays when the run is retried. Not known, and so denied, without the graph.
    pub(super) fn is_failure_handled(&self, key: &StepKey) -> bool {
        let Some(graph) = self.graph() else { return false };
        let Some(step) = StepPath::find(graph, key) else { return false };
        let node = graph.node(step.node);
        let skips_item = || {
            let owner = step.path.owner().map(|(owner, _)| &graph.node(owner.node).kind);
            matches!(owner, Some(NodeKind::Loop(config)) if config.on_item_error == OnItemError::Continue)
        };
        node.handles_failure() || node.on_error != OnError::FailWorkflow && skips_item()
    }

    fn graph(&self) -> Option<&Graph> {
        match self {
            Self::Graph(workflow) => workflow.as_ref()?.graph(),
            Self::Code(_) => None,
        }
    }
}

/// Reads an entry that was just committed, for observers that hold no story. `since` is when the step that it settles
/// began; `state` is the run's state after the entry. Both the workflow and the state are none for a run that this
/// build cannot read.
pub fn observe<'e>(
    entry: &'e Entry,
    since: Option<Timestamp>,
    run: Option<(&'e Workflow, &'e State)>,
) -> Option<Update<'e>> {
    let context = entry.event.step().map(|(key, _)| observed(key, since, run)).unwrap_or_default();
    super::read(entry, context)
}

fn observed<'e>(key: &'e StepKey, since: Option<Timestamp>, run: Option<(&'e Workflow, &'e State)>) -> StepContext<'e> {
    let node = run.map_or(key.place(), |(workflow, _)| workflow.style.name_of(key));
    let kind = run.and_then(|(workflow, state)| match &workflow.style {
        Style::Graph(graph) => graph.find_node(node).map(|node| node.kind.name()),
        Style::Code => state.code()?.step(key).map(|step| name(step.kind)),
    });
    StepContext { node: node.into(), kind: kind.map(Into::into), since, due: None, timer: Some(timer(kind)) }
}

/// What a timer of a step of this kind is for.
pub(super) fn timer(kind: Option<&str>) -> TimerPurpose {
    match kind {
        Some("sleep") => TimerPurpose::Sleep,
        Some("loop") => TimerPurpose::Pace,
        Some(_) | None => TimerPurpose::Retry,
    }
}

/// What a step of code is, by its first entry.
fn first_kind(event: &Event) -> Option<StepKind> {
    match event {
        Event::StepCompleted { .. } | Event::StepFailed { .. } => Some(StepKind::Run),
        Event::TimerSet { why: TimerPurpose::Sleep, .. } => Some(StepKind::Sleep),
        Event::WaitOpened { .. } | Event::WaitResolved { .. } => Some(StepKind::Wait),
        // A call that is refused is an instant.
        Event::StepDispatched { dispatch: Dispatch::Child(_) | Dispatch::Instant, .. } => Some(StepKind::Call),
        Event::StepDispatched { .. }
        | Event::StepSkipped { .. }
        | Event::TimerSet { .. }
        | Event::TimerFired { .. }
        | Event::RunStarted { .. }
        | Event::SignalBuffered { .. }
        | Event::TurnStarted { .. }
        | Event::TurnLost { .. }
        | Event::ContextSet { .. }
        | Event::RunPaused { .. }
        | Event::RunResumed
        | Event::RunRetried
        | Event::RunCompleted { .. }
        | Event::RunFailed { .. }
        | Event::RunCancelled { .. } => None,
    }
}

/// The word that clients see.
fn name(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Run => "run",
        StepKind::Sleep => "sleep",
        StepKind::Wait => "wait",
        StepKind::Call => "call",
    }
}
