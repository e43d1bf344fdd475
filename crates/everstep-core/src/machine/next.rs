//! The events that follow from the state of a machine's run alone.
//!
//! 1. A run that has started enters the initial state. If that fails, the run fails.
//! 2. An action that a side effect performs follows at once, at most [`limits::AUTO_TRANSITIONS`] times in a row.
//! 3. The end of the run that the state started moves the machine to the state for it. Without a state for its failure,
//!    the run fails with it. Runs that fail again and again at once are a loop, which pauses the machine.
//! 4. If a transition of rule 2 or 3 cannot be evaluated, the run is paused; the resume tries again.
//! 5. A fork starts the run again that its original waits for.
//! 6. A run in a terminal state ends with the transition to it, or after its last delivery.
//! 7. Deliveries that have failed, or that belong to the original of a fork, are continued first ([`deliveries`]).

use serde_json::{Map, Value, json};

use super::check_input;
use super::conditions::Performance;
use super::context::MachineContext;
use super::deliveries::{self, EffectList};
use super::model::MachineState;
use super::run::{MachineRun, step_of_run};
use super::timers::{auto_loop, is_hasty};
use super::transitions::{Hindrance, Move, Record, end_of_run, enter, perform};
use crate::actor::{Actor, ActorKind};
use crate::failure::{Failure, code};
use crate::journal::{AutoAction, Dispatch, Event};
use crate::limits;
use crate::payload::Payload;
use crate::run::{Activity, Child, Cx, Open};

const START: &str = "@start";
const RUN: &str = "@run";

pub(crate) fn next(run: MachineRun<'_>, cx: Cx<'_>) -> Vec<Event> {
    let Some((place, definition)) = run.place() else {
        return start(run, cx).unwrap_or_else(|failure| vec![Event::run_failed(failure, None)]);
    };
    if let Some(event) = deliveries::again(run, cx) {
        return vec![event];
    }
    if definition.is_terminal() {
        let is_over = !run.state.open.has_deliveries();
        return is_over.then(|| end(run, definition, run.progress.version_no, cx)).into_iter().collect();
    }
    if let Some(auto) = &place.auto {
        return follow_auto(run, auto, cx).unwrap_or_else(pause);
    }
    if let Some(end) = &place.run_end {
        return follow_run(run, end, cx).unwrap_or_else(pause);
    }
    start_child_again(run, cx).into_iter().collect()
}

fn pause(reason: Failure) -> Vec<Event> {
    vec![Event::RunPaused { reason: Some(reason) }]
}

/// Rule 6.
fn end(run: MachineRun<'_>, definition: &MachineState, version_no: u32, cx: Cx<'_>) -> Event {
    if let Some(end) = run.progress.decided_end() {
        return end.clone().into_event();
    }
    let by = Actor::system(Actor::START);
    let user = Performance::of_server(START, &by, None).user();
    let lookup = MachineContext::new(run, run.progress.context.value(), None, &user, cx);
    match end_of_run(definition, version_no, &lookup, cx) {
        Ok(Some(end)) => end.into_event(),
        Ok(None) => Event::run_completed(Payload::null()),
        Err(failure) => Event::run_failed(failure, None),
    }
}

/// Rule 1.
fn start(run: MachineRun<'_>, cx: Cx<'_>) -> Result<Vec<Event>, Failure> {
    let schema = run.machine.context_schema().map(AsRef::as_ref);
    if let Some(fault) = check_input(schema, run.state.input.value()).first() {
        let message = match fault.pointer.as_str() {
            "" => fault.message.clone(),
            pointer => format!("the input does not fit the context schema: {pointer} {}", fault.message),
        };
        return Err(Failure::fatal(code::VALIDATION_ERROR, message));
    }
    let by = match (run.state.started_by(), run.state.parent()) {
        (Some(by), _) => by.clone(),
        (None, Some(parent)) => Actor::new(ActorKind::Run, parent.run.to_string()),
        (None, None) => Actor::system(Actor::START),
    };
    let user = Performance::of_server(START, &by, None).user();
    let to = run.machine.state(run.machine.initial);
    let (set, effects, record) = (Map::new(), Vec::new(), Record::default());
    enter(run, Move { action: START, to, by, set, effects, user, record }, cx)
}

/// Rule 2.
fn follow_auto(run: MachineRun<'_>, auto: &AutoAction, cx: Cx<'_>) -> Result<Vec<Event>, Failure> {
    if run.progress.autos >= limits::AUTO_TRANSITIONS {
        return Err(auto_loop());
    }
    let action = run.place().and_then(|(_, definition)| definition.action(&auto.action));
    let Some(action) = action else {
        let message = format!("the state has no action {}", auto.action);
        return Err(Failure::fatal(super::code::ACTION_CLOSED, message));
    };
    let by = Actor::system(Actor::AUTO);
    let performance = Performance::of_server(&auto.action, &by, auto.data.as_ref().map(Payload::value));
    let record = Record { data: auto.data.clone(), ..Record::default() };
    perform(run, action, performance, by.clone(), None, record, cx).map_err(Hindrance::into_failure)
}

/// Rule 3.
fn follow_run(run: MachineRun<'_>, end: &Result<Payload, Failure>, cx: Cx<'_>) -> Result<Vec<Event>, Failure> {
    let Some((_, definition)) = run.place() else { return Ok(Vec::new()) };
    let Some(state_run) = &definition.run else { return Ok(Vec::new()) };
    let is_loop =
        end.is_err() && run.progress.autos >= limits::AUTO_TRANSITIONS && is_hasty(run.progress.entered_at(), cx.now);
    if is_loop {
        return Err(auto_loop());
    }
    let (to, saved) = match end {
        Ok(output) => (state_run.done, output.value().clone()),
        Err(failure) => match state_run.error {
            Some(to) => (to, json!({"error": {"code": failure.code, "message": failure.message}})),
            None => {
                let step = Some(step_of_run(run.progress.version_no));
                return Ok(vec![Event::run_failed(failure.clone(), step)]);
            }
        },
    };
    let set: Map<String, Value> = state_run.save_as.iter().map(|name| (name.clone(), saved.clone())).collect();
    let by = Actor::system(Actor::RUN);
    let user = Performance::of_server(RUN, &by, None).user();
    let exit = EffectList::exit(run.progress.version_no + 1, &definition.exit);
    let (to, effects) = (run.machine.state(to), vec![exit]);
    enter(run, Move { action: RUN, to, by, set, effects, user, record: Record::default() }, cx)
}

/// Rule 5.
fn start_child_again(run: MachineRun<'_>, cx: Cx<'_>) -> Option<Event> {
    let step = run.state.open.first_todo()?;
    let Open { activity: Activity::Child(child), attempt, .. } = run.state.open.get(step)? else { return None };
    let attempt = attempt + 1;
    let child = Child { run: Child::id(run.state.run, step, attempt, cx.now), ..Child::clone(child) };
    Some(Event::StepDispatched { step: step.clone(), attempt, dispatch: Dispatch::Child(child.into()) })
}
