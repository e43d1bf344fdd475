//! Dry runs: the result of a request, with every reason against it. Nothing is written.

use serde_json::{Value, json};

use super::conditions::Performance;
use super::context::{MachineContext, merge};
use super::examine::{Extent, Refusal, Request, check_phase, check_version};
use super::model::{AfterEffect, SideEffect, SideEffectKind};
use super::run::MachineRun;
use super::timers::step_of_timer;
use super::transitions::{Move, Record, enter};
use super::{Act, Reason};
use crate::actor::Actor;
use crate::failure::{Failure, code};
use crate::ids::StepKey;
use crate::journal::{Ballot, Entry, Event, TransitionApplied};
use crate::payload::Payload;
use crate::run::{Child, Cx, State};
use crate::time::Timestamp;
use crate::workflow::Workflow;

/// The result of a dry run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Every reason for which the request would be rejected; empty if it would be accepted.
    pub reasons: Vec<Reason>,
    /// Whether the machine would move. A vote that does not reach its quorum moves nothing.
    pub applied: bool,
    pub state: Option<String>,
    /// The state after the request, and after the actions that follow from it.
    pub next_state: Option<String>,
    pub version_no: u32,
    pub is_completed: bool,
    /// Values that would be set in the context.
    pub set: Option<Payload>,
    pub assigned: Vec<String>,
    pub voters: Vec<(String, Ballot)>,
    /// Timers that would be set.
    pub timers: Vec<TimerView>,
    /// The side effects of the transition, with their templates resolved: `{id, type, …}`.
    pub events: Vec<Value>,
    /// The run that the entered state would start.
    pub run: Option<Child>,
    pub output: Option<Payload>,
    /// Why the run would be paused after the request: an action that follows cannot be evaluated, or is a loop.
    pub pause: Option<Reason>,
}

/// A timer of a state.
#[derive(Clone, Debug, PartialEq)]
pub struct TimerView {
    /// The position in `after`.
    pub n: usize,
    pub due: Timestamp,
    /// The state that it leads to, or the action that it performs.
    pub to: Option<String>,
    pub action: Option<String>,
}

/// Evaluates a request for an action of a run. Due timers do not fire: the evaluation describes the state as it is.
pub fn evaluate(workflow: &Workflow, state: &State, act: &Act, cx: Cx<'_>) -> Evaluation {
    let Some(run) = MachineRun::find(workflow, state) else { return Evaluation::default() };
    let mut refusals = Vec::new();
    refusals.extend(check_phase(run).err());
    refusals.extend(check_version(run, act).err());
    let mut events = Vec::new();
    match Request::find(run, act, cx) {
        Ok(request) => {
            refusals.extend(request.examine(Extent::All));
            match request.carry_out(None) {
                Ok(decided) => events = decided,
                Err(refusal) => refusals.push(refusal),
            }
        }
        Err(refusal) => refusals.push(refusal),
    }
    let mut evaluation = describe(run, &events, act, cx);
    evaluation.reasons = refusals.into_iter().map(Reason::from).collect();
    if evaluation.reasons.is_empty() {
        follow(workflow, state, events, cx, &mut evaluation);
    }
    evaluation
}

/// A run that is in a state of a machine with a context, for dry runs of a definition.
pub fn imagine(
    workflow: &Workflow,
    state_name: &str,
    context: &Payload,
    by: &Actor,
    cx: Cx<'_>,
) -> Result<State, Failure> {
    let invalid = |message: String| Failure::fatal(code::VALIDATION_ERROR, message);
    let machine = workflow.style.machine().ok_or_else(|| invalid("the workflow is not a state machine".to_owned()))?;
    let to = machine.find_state(state_name);
    let to = to.ok_or_else(|| invalid(format!("the machine has no state {state_name:?}")))?;
    if !context.value().is_object() {
        return Err(invalid("the context is an object".to_owned()));
    }
    let mut state = State::new(crate::ids::RunId::new(cx.now, 0), workflow);
    let cause = Some(by.clone().into());
    let started = Event::RunStarted { input: context.clone(), cause, definition: None };
    let unfit = |error: crate::run::FoldError| invalid(error.to_string());
    state.apply(workflow, &Entry::new(1, cx.now, started)).map_err(unfit)?;
    let run = MachineRun::from_state(workflow, machine, &state);
    let user = Performance::of_server("@start", by, None).user();
    let effects = Vec::new();
    let to_state = Move {
        action: "@start",
        to,
        by: by.clone(),
        set: Default::default(),
        effects,
        user,
        record: Record::default(),
    };
    let events = enter(run, to_state, cx)?;
    // A terminal state would end the run: only its place matters here.
    let events = events.into_iter().filter(|event| !event.kind().ends_run());
    for (at, event) in events.enumerate() {
        state.apply(workflow, &Entry::new(2 + at as u64, cx.now, event)).map_err(unfit)?;
    }
    Ok(state)
}

/// Describes the events of a request.
fn describe(run: MachineRun<'_>, events: &[Event], act: &Act, cx: Cx<'_>) -> Evaluation {
    let state = run.progress.state_name().map(str::to_owned);
    let mut evaluation =
        Evaluation { next_state: state.clone(), state, version_no: run.progress.version_no, ..Evaluation::default() };
    let mut timers: Vec<(StepKey, Timestamp)> = Vec::new();
    for event in events {
        match event {
            Event::TransitionApplied(applied) => {
                evaluation.applied = true;
                evaluation.next_state = Some(applied.to.clone());
                evaluation.version_no = applied.version_no;
                evaluation.set.clone_from(&applied.set);
                evaluation.assigned.clone_from(&applied.assigned);
                let voters = applied.voters.iter();
                evaluation.voters = voters.map(|(action, ballot)| (action.clone(), ballot.clone())).collect();
                evaluation.events = side_effects(run, applied, act, cx);
                if let Some(end) = &applied.end {
                    (evaluation.is_completed, evaluation.output) = (true, end.output().cloned());
                }
            }
            Event::TimerSet { step, due, .. } => timers.push((step.clone(), *due)),
            Event::StepDispatched { dispatch: crate::journal::Dispatch::Child(child), .. } => {
                evaluation.run = Some(Child::clone(child));
            }
            Event::RunCompleted { output, .. } => {
                (evaluation.is_completed, evaluation.output) = (true, Some(output.clone()));
            }
            Event::RunFailed { .. } => evaluation.is_completed = true,
            Event::StepDispatched { .. }
            | Event::RunStarted { .. }
            | Event::StepCompleted { .. }
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::TimerFired { .. }
            | Event::WaitOpened { .. }
            | Event::WaitResolved { .. }
            | Event::SignalBuffered { .. }
            | Event::TurnStarted { .. }
            | Event::TurnLost { .. }
            | Event::VoteCast(_)
            | Event::Assigned(_)
            | Event::ContextSet { .. }
            | Event::RunPaused { .. }
            | Event::RunResumed
            | Event::RunRetried
            | Event::RunCancelled { .. } => {}
        }
    }
    let entered = evaluation.next_state.as_deref().and_then(|name| run.machine.find_state(name));
    let after = entered.map_or(&[][..], |state| &state.after);
    for (n, after) in after.iter().enumerate() {
        let step = step_of_timer(evaluation.version_no, n);
        let Some((_, due)) = timers.iter().find(|(set, _)| *set == step) else { continue };
        let (to, action) = match &after.effect {
            AfterEffect::To(to) => (Some(run.machine.state(*to).name.clone()), None),
            AfterEffect::Do(action) => (None, Some(action.clone())),
            AfterEffect::None => (None, None),
        };
        evaluation.timers.push(TimerView { n, due: *due, to, action });
    }
    evaluation
}

/// The side effects of a transition, with their templates resolved on the context after it.
fn side_effects(run: MachineRun<'_>, applied: &TransitionApplied, act: &Act, cx: Cx<'_>) -> Vec<Value> {
    let Some((_, left)) = run.place() else { return Vec::new() };
    let performance = match applied.by.is_system(Actor::STALEMATE) {
        true => Performance::of_server(&applied.action, &applied.by, None),
        false => Performance {
            action: &applied.action,
            by: &act.by,
            rights: Some(&act.rights),
            comment: act.comment.as_deref(),
            data: act.data.as_ref().map(Payload::value),
        },
    };
    let chosen = left.action(&applied.action).and_then(|action| {
        let context = merge(&run.progress.context, &applied.data);
        Some((action, run.variables(&performance, cx).choose(action, context.value()).ok()?))
    });
    let of_action = chosen.into_iter().flat_map(|(action, branch)| action.events.iter().chain(&branch.events));
    let entry = run.machine.find_state(&applied.to).into_iter().flat_map(|state| &state.entry);
    let context = merge(&run.progress.context, applied.data.iter().chain(&applied.set));
    let user = performance.user();
    let lookup = MachineContext::new(run, context.value(), Some(&applied.action), &user, cx);
    left.exit.iter().chain(of_action).chain(entry).map(|effect| resolve(effect, &lookup, cx)).collect()
}

fn resolve(effect: &SideEffect, lookup: &MachineContext<'_>, cx: Cx<'_>) -> Value {
    let value = |template: &Value| match cx.resolve(template, lookup) {
        Ok(value) => value,
        Err(failure) => json!({"error": {"code": failure.code, "message": failure.message}}),
    };
    match &effect.kind {
        SideEffectKind::Assign { who } => {
            json!({"id": effect.id, "type": "assign", "target": who.iter().map(value).collect::<Vec<_>>()})
        }
        SideEffectKind::AutoAction { action, payload } => {
            json!({"id": effect.id, "type": "auto_action", "target": action, "payload": payload.as_ref().map(value)})
        }
        SideEffectKind::Deliver(template) => {
            let (target, payload) = (value(&template.target), template.payload.as_ref().map(value));
            json!({"id": effect.id, "type": template.kind.as_str(), "target": target, "payload": payload})
        }
    }
}

/// Applies the events to a copy of the state, so that the actions that follow are part of the result.
fn follow(workflow: &Workflow, state: &State, events: Vec<Event>, cx: Cx<'_>, evaluation: &mut Evaluation) {
    let mut state = state.clone();
    for event in events {
        let at = cx.now.max(state.updated_at);
        let entry = Entry::new(state.seq + 1, at, event);
        if state.apply(workflow, &entry).is_err() {
            return;
        }
    }
    crate::run::decide::settle(workflow, &mut state, cx);
    let Some((name, version_no)) = state.place_of_machine() else { return };
    (evaluation.next_state, evaluation.version_no) = (Some(name.to_owned()), version_no);
    evaluation.is_completed = state.has_ended() || state.decided_end().is_some();
    evaluation.output = state.output().or_else(|| state.decided_end()?.output()).cloned();
    let failure = state.failure().filter(|_| state.is_paused());
    evaluation.pause = failure.map(|failure| Reason::from(Refusal::from(failure.clone())));
}
