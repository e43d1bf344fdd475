//! Transitions: performing an action, and entering a state.
//!
//! 1. The condition of the action is judged, then its branches in their order; they read the context with the data of
//!    the request merged.
//! 2. The values that the action sets are evaluated on that context, then those of the branch on the result.
//! 3. Everything that the entered state needs is evaluated on the context after that: assigned persons, voters, timers,
//!    the input of its run, the output of the run if the state is terminal. If one of them cannot be evaluated, the
//!    transition does not happen.
//! 4. Side effects are taken in this order: exit of the left state, timer, action, branch, entry of the entered state.
//!    The last `assign` among them determines the assigned persons; the first `auto_action` whose conditions hold in
//!    the entered state follows in the same item.
//!    Deliveries are decided in that order too; `deliveries.rs` has their rules.
//! 5. A terminal state ends the run in the same item, or after its last delivery if one is open. The end is evaluated
//!    with the transition in either case.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::conditions::{ConditionFuel, Performance, Standing, Unmet, Variables};
use super::context::{INPUT, MachineContext, check_size, merge, persons};
use super::deliveries::{DeliveryFacts, EffectList, deliver};
use super::model::{Action, MachineEnd, MachineState, SideEffect, SideEffectKind};
use super::run::{MachineRun, start_child, step_of_run};
use super::{quorum, timers};
use crate::actor::Actor;
use crate::failure::{Failure, code};
use crate::journal::{AutoAction, Ballot, DecidedEnd, Dispatch, Event, TimerPurpose, TransitionApplied};
use crate::limits;
use crate::payload::{self, Payload};
use crate::run::Cx;

/// Why an action was not performed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Hindrance {
    /// A condition does not hold.
    Unmet(Unmet),
    /// A value cannot be evaluated.
    Failure(Failure),
}

impl From<Failure> for Hindrance {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<Unmet> for Hindrance {
    fn from(unmet: Unmet) -> Self {
        Self::Unmet(unmet)
    }
}

impl Hindrance {
    /// The reason for which a run is paused.
    pub(super) fn into_failure(self) -> Failure {
        match self {
            Self::Unmet(unmet) => Failure::fatal(unmet.code, unmet.message),
            Self::Failure(failure) => failure,
        }
    }
}

/// The parts of a transition that its cause determines.
#[derive(Default)]
pub(super) struct Record {
    pub(super) comment: Option<String>,
    pub(super) data: Option<Payload>,
    pub(super) files: Vec<String>,
    pub(super) votes: Vec<Actor>,
    pub(super) shown: Option<String>,
    pub(super) request: Option<String>,
    /// Whether the item has deliveries that were decided before the transition.
    pub(super) is_delivering: bool,
}

/// A transition to a state.
pub(super) struct Move<'a> {
    pub(super) action: &'a str,
    pub(super) to: &'a MachineState,
    pub(super) by: Actor,
    /// Values that are set, evaluated.
    pub(super) set: Map<String, Value>,
    /// Side effects before those of the entered state.
    pub(super) effects: Vec<EffectList<'a>>,
    /// The actor as templates read it.
    pub(super) user: Value,
    pub(super) record: Record,
}

/// The events of performing an action of the present state: rules 1 and 2, then those of [`enter`]. `by` is the actor
/// that the entry records; `timer` are the side effects of the timer that performs the action, if one does.
pub(super) fn perform<'a>(
    run: MachineRun<'a>,
    action: &'a Action,
    performance: Performance<'_>,
    by: Actor,
    timer: Option<EffectList<'a>>,
    record: Record,
    cx: Cx<'_>,
) -> Result<Vec<Event>, Hindrance> {
    let context = merge(&run.progress.context, &record.data);
    let variables = run.variables(&performance, cx);
    variables.check(action, context.value())?;
    let branch = variables.choose(action, context.value())?;
    let user = performance.user();
    let mut set = Map::new();
    let mut current = context;
    for templates in [&action.set, &branch.set] {
        let lookup = MachineContext::new(run, current.value(), Some(&action.name), &user, cx);
        let values = resolve_all(templates, &lookup, cx)?;
        set.extend(values.clone());
        current = merge(&current, [&Payload::from(Value::Object(values))]);
    }
    let version_no = run.progress.version_no + 1;
    let exit = run.place().map(|(_, left)| EffectList::exit(version_no, &left.exit));
    let number = action.branches.iter().position(|other| std::ptr::eq(other, branch)).unwrap_or_default();
    let of_action = EffectList::action(&action.name, version_no, &action.events);
    let of_branch = EffectList::branch(&action.name, version_no, number, &branch.events);
    let effects = exit.into_iter().chain(timer).chain([of_action, of_branch]).collect();
    let to = run.machine.state(branch.to);
    Ok(enter(run, Move { action: &action.name, to, by, set, effects, user, record }, cx)?)
}

fn resolve_all(
    templates: &Map<String, Value>,
    lookup: &MachineContext<'_>,
    cx: Cx<'_>,
) -> Result<Map<String, Value>, Failure> {
    templates.iter().map(|(name, template)| Ok((name.clone(), cx.resolve(template, lookup)?))).collect()
}

/// The events of entering a state: rules 3 to 5.
pub(super) fn enter(run: MachineRun<'_>, to_state: Move<'_>, cx: Cx<'_>) -> Result<Vec<Event>, Failure> {
    let Move { action, to, by, set, effects, user, record } = to_state;
    let version_no = run.progress.version_no + 1;
    let set = if set.is_empty() { None } else { Some(Payload::from(Value::Object(set))) };
    let context = merge(&run.progress.context, record.data.iter().chain(&set));
    // A context that does not change was checked when the present state was entered.
    if run.progress.place.is_none() || !context.is_same(&run.progress.context) {
        check_size(&context)?;
    }
    let lookup = MachineContext::new(run, context.value(), Some(action), &user, cx);
    let lists: Vec<_> = effects.into_iter().chain([EffectList::entry(version_no, &to.entry)]).collect();
    let effects: Vec<_> = lists.iter().flat_map(|list| list.effects).collect();
    let assigned = assigned(to, &effects, &lookup, cx)?;
    let voters = voters(to, &lookup, cx)?;
    let auto = auto_action(run, to, version_no, &effects, &voters, &lookup, cx)?;
    // An entry has the time of the decision, unless the clock went backwards.
    let at = cx.now.max(run.state.updated_at);
    let mut events = Vec::new();
    if to.end.is_none() {
        for (n, after) in to.after.iter().enumerate() {
            let due = timers::due(after, n, at, &lookup, cx)?;
            let step = timers::step_of_timer(version_no, n);
            events.push(Event::TimerSet { step, attempt: 1, due, why: TimerPurpose::After });
        }
        if let Some(state_run) = &to.run {
            let dispatch = Dispatch::Child(start_child(run, state_run, version_no, &lookup, cx)?);
            events.push(Event::StepDispatched { step: step_of_run(version_no), attempt: 1, dispatch });
        }
    }
    let from = run.progress.state_name();
    let comment = record.comment.as_deref();
    let facts = DeliveryFacts { action, from, to: &to.name, version_no, by: &by, comment };
    events.extend(deliver(run, &lists, &facts, &lookup, cx)?);
    let is_delivering = record.is_delivering || run.state.open.has_deliveries() || events.iter().any(is_delivery);
    let mut end = end_of_run(to, version_no, &lookup, cx)?;
    if !is_delivering {
        events.extend(end.take().map(DecidedEnd::into_event));
    }
    let Record { comment, data, files, votes, shown, request, is_delivering: _ } = record;
    let applied = TransitionApplied {
        action: action.to_owned(),
        from: from.map(str::to_owned),
        to: to.name.clone(),
        version_no,
        by,
        on_behalf_of: None,
        comment,
        data,
        set,
        files,
        assigned,
        voters,
        votes,
        shown,
        auto,
        end,
        request,
    };
    events.insert(0, Event::TransitionApplied(Box::new(applied)));
    Ok(events)
}

fn is_delivery(event: &Event) -> bool {
    matches!(event, Event::StepDispatched { dispatch: Dispatch::Delivery(_), .. })
}

/// The persons to whom an entered state is assigned.
fn assigned(
    to: &MachineState,
    effects: &[&SideEffect],
    lookup: &MachineContext<'_>,
    cx: Cx<'_>,
) -> Result<Vec<String>, Failure> {
    let by_effect = effects.iter().rev().find_map(|effect| match &effect.kind {
        SideEffectKind::Assign { who } => Some(who),
        SideEffectKind::AutoAction { .. } | SideEffectKind::Deliver(_) => None,
    });
    persons(by_effect.unwrap_or(&to.assign), lookup, cx, &format!("the persons of the state {:?}", to.name))
}

fn voters(to: &MachineState, lookup: &MachineContext<'_>, cx: Cx<'_>) -> Result<BTreeMap<String, Ballot>, Failure> {
    let with_quorum = to.on.iter().filter_map(|action| Some((action, action.quorum.as_ref()?)));
    with_quorum
        .map(|(action, quorum)| Ok((action.name.clone(), quorum::resolve(&action.name, quorum, lookup, cx)?)))
        .collect()
}

/// The action that follows in an entered state.
fn auto_action(
    run: MachineRun<'_>,
    to: &MachineState,
    version_no: u32,
    effects: &[&SideEffect],
    voters: &BTreeMap<String, Ballot>,
    lookup: &MachineContext<'_>,
    cx: Cx<'_>,
) -> Result<Option<AutoAction>, Failure> {
    let (by, fuel) = (Actor::system(Actor::AUTO), ConditionFuel::full(cx.meter));
    let mut entered = None;
    for effect in effects {
        let SideEffectKind::AutoAction { action: name, payload } = &effect.kind else { continue };
        let Some(action) = to.action(name) else { continue };
        let data = auto_data(name, payload.as_ref(), lookup, cx)?;
        let performance = Performance::of_server(name, &by, data.as_ref().map(Payload::value));
        let votes = voters.iter().map(|(action, ballot)| {
            let (action, of) = (action.clone(), ballot.of.clone());
            super::Tally { action, count: 0, need: ballot.need, of, by: Vec::new() }
        });
        let standing = Standing { state: &to.name, version_no, votes: votes.collect() };
        let variables = Variables::new(&standing, &performance, run.state.started_by(), cx.now, fuel.clone());
        let context = merge(entered.get_or_insert_with(|| Payload::from(lookup.context.clone())), &data);
        if variables.permit(action, context.value()) {
            return Ok(Some(AutoAction { action: name.clone(), data }));
        }
    }
    Ok(None)
}

/// The data of an action that a side effect performs.
pub(super) fn auto_data(
    action: &str,
    payload: Option<&Value>,
    lookup: &MachineContext<'_>,
    cx: Cx<'_>,
) -> Result<Option<Payload>, Failure> {
    let Some(template) = payload else { return Ok(None) };
    let fault = match cx.resolve(template, lookup)? {
        Value::Object(fields) if fields.contains_key(INPUT) => "sets `input`, which is the input of the run",
        data @ Value::Object(_) => return Ok(Some(Payload::from(data))),
        _ => "is not an object",
    };
    let message = format!("the payload of the auto_action {action} {fault}");
    Err(Failure::fatal(code::EXPRESSION_ERROR, message))
}

/// How the run ends in a terminal state.
pub(super) fn end_of_run(
    to: &MachineState,
    version_no: u32,
    lookup: &MachineContext<'_>,
    cx: Cx<'_>,
) -> Result<Option<DecidedEnd>, Failure> {
    Ok(match to.end {
        None => None,
        Some(MachineEnd::Completed) => Some(DecidedEnd::Completed { output: output(to, version_no, lookup, cx)? }),
        Some(MachineEnd::Failed) => {
            let message = format!("the run ended in the state {:?}", to.name);
            Some(DecidedEnd::Failed { failure: Failure::fatal(code::END_ERROR, message) })
        }
    })
}

/// The output of a run that ends in a state.
fn output(to: &MachineState, version_no: u32, lookup: &MachineContext<'_>, cx: Cx<'_>) -> Result<Payload, Failure> {
    let output = Payload::from(match &to.output {
        Some(template) => cx.resolve(template, lookup)?,
        None => json!({"state": to.name, "versionNo": version_no, "context": lookup.context}),
    });
    if output.size() > limits::PAYLOAD_BYTES {
        let message = format!("the output of the run has {} bytes, more than {}", output.size(), limits::PAYLOAD_BYTES);
        return Err(Failure::fatal(code::PAYLOAD_TOO_LARGE, message));
    }
    payload::check(output.json())
        .map_err(|error| Failure::fatal(error.code(), format!("the output of the run {error}")))?;
    Ok(output)
}
