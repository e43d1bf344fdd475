//! The timers of a state.
//!
//! 1. Entering a state sets its timers; leaving it closes them.
//! 2. A timer that is due moves the machine to a state or performs an action, as `@timer`. Requirements and quorums do
//!    not apply to it; the condition of the action does. If it does not hold, the timer has fired and nothing moves.
//! 3. A timer without either only has side effects: it assigns the state, performs an action as `@auto`, or delivers.
//!    With `every` it is set again, under its next attempt, until it was due `times` times or the state is left.
//! 4. If a value cannot be evaluated, the run is paused and the timer stays due: it fires again at the resume.
//! 5. Timers that are due again and again at once are a loop, which pauses the run.

use std::time::Duration;

use serde_json::Map;

use super::conditions::Performance;
use super::context::{MachineContext, persons};
use super::deliveries::{DeliveryFacts, EffectList, deliver};
use super::model::{After, AfterDue, AfterEffect, MachineState, SideEffect, SideEffectKind};
use super::run::MachineRun;
use super::transitions::{Hindrance, Move, Record, auto_data, enter, perform};
use super::{AssignmentChange, code as machine_code};
use crate::actor::Actor;
use crate::failure::{Failure, code};
use crate::ids::StepKey;
use crate::journal::{Assigned, Event, TimerPurpose};
use crate::limits;
use crate::payload::Payload;
use crate::planted::{self, Bug};
use crate::run::{Cx, Open};
use crate::time::Timestamp;

/// A timer or a failed run that moves a machine earlier than this after its state was entered counts as a transition in
/// a row.
const HASTE: Duration = Duration::from_secs(1);
/// The action of a timer that moves to a state.
const ACTION: &str = "@after";

/// The step of the n-th timer of a state.
pub(super) fn step_of_timer(version_no: u32, n: usize) -> StepKey {
    format!("@after[{version_no}].{n}").into()
}

/// Whether a transition of a timer or of a failed run counts as one of a row.
pub(super) fn is_hasty(entered_at: Option<Timestamp>, at: Timestamp) -> bool {
    entered_at.is_some_and(|entered_at| at.since(entered_at) < HASTE)
}

/// When a timer of an entered state is due.
pub(super) fn due(
    after: &After,
    n: usize,
    entered_at: Timestamp,
    lookup: &MachineContext<'_>,
    cx: Cx<'_>,
) -> Result<Timestamp, Failure> {
    let due = match &after.due {
        AfterDue::In(duration) => entered_at.plus(*duration),
        AfterDue::At(template) => {
            let value = cx.resolve(template, lookup)?;
            let time = value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
            time.ok_or_else(|| {
                let message = format!("after[{n}].at: expected a time such as 2030-01-31T09:00:00Z, found {value}");
                Failure::fatal(code::EXPRESSION_ERROR, message)
            })?
        }
    };
    if due > entered_at.plus(Duration::from_hours(24 * limits::TIMER_DAYS)) {
        let message = format!("after[{n}] is more than {} days from now", limits::TIMER_DAYS);
        return Err(Failure::fatal(code::EXPRESSION_ERROR, message));
    }
    Ok(due)
}

/// The state to which a timer leads, if it is known without evaluating a condition.
pub(super) fn target<'m>(run: MachineRun<'m>, state: &'m MachineState, after: &After) -> Option<&'m str> {
    let to = match &after.effect {
        AfterEffect::To(to) => *to,
        AfterEffect::Do(action) => match state.action(action)?.branches.as_slice() {
            [branch] => branch.to,
            _ => return None,
        },
        AfterEffect::None => return None,
    };
    Some(&run.machine.state(to).name)
}

/// The number of a timer of the present state, by its step.
pub(super) fn find(run: MachineRun<'_>, step: &StepKey) -> Option<usize> {
    let (_, definition) = run.place()?;
    if planted::is_planted(Bug::TimerOutlivesItsState) {
        return (0..definition.after.len()).find(|n| step.as_str().ends_with(&format!("].{n}")));
    }
    (0..definition.after.len()).find(|n| step_of_timer(run.progress.version_no, *n) == *step)
}

/// The events that follow when a timer is due; none for a step without a timer.
pub(crate) fn on_timer(run: MachineRun<'_>, step: &StepKey, open: &Open, cx: Cx<'_>) -> Vec<Event> {
    if open.delivery.is_some() {
        return vec![Event::TimerFired { step: step.clone(), attempt: open.attempt }];
    }
    let fired = Event::TimerFired { step: step.clone(), attempt: open.attempt };
    let Some((n, (_, definition))) = find(run, step).zip(run.place()) else {
        // A timer that stays due would fire for ever.
        return if planted::is_planted(Bug::TimerOutlivesItsState) { vec![fired] } else { Vec::new() };
    };
    let is_loop = run.progress.autos >= limits::AUTO_TRANSITIONS
        && is_hasty(run.progress.entered_at(), cx.now)
        && may_move(&definition.after[n]);
    if is_loop {
        return vec![Event::RunPaused { reason: Some(auto_loop()) }];
    }
    match follow(run, definition, (step, open), &definition.after[n], cx) {
        Ok(events) => std::iter::once(fired).chain(events).collect(),
        Err(Hindrance::Unmet(_)) => vec![fired],
        Err(Hindrance::Failure(failure)) => vec![Event::RunPaused { reason: Some(failure) }],
    }
}

/// Whether a timer can move the machine: by itself, or by an action that it performs.
fn may_move(after: &After) -> bool {
    let performs = |effect: &SideEffect| matches!(effect.kind, SideEffectKind::AutoAction { .. });
    after.effect != AfterEffect::None || after.events.iter().any(performs)
}

/// The reason for which a run is paused that moves again and again without an input.
pub(super) fn auto_loop() -> Failure {
    let message = format!("the machine moved {} times in a row without an input", limits::AUTO_TRANSITIONS);
    Failure::fatal(machine_code::AUTO_LOOP, message)
}

/// The events of a timer that has fired.
fn follow<'a>(
    run: MachineRun<'a>,
    definition: &'a MachineState,
    (step, open): (&StepKey, &Open),
    after: &'a After,
    cx: Cx<'_>,
) -> Result<Vec<Event>, Hindrance> {
    let by = Actor::system(Actor::TIMER);
    let of_timer = EffectList::timer(step, after.repeat.map(|_| open.attempt), &after.events);
    match &after.effect {
        AfterEffect::To(to) => {
            let performance = Performance::of_server(ACTION, &by, None);
            let effects = vec![EffectList::exit(run.progress.version_no + 1, &definition.exit), of_timer];
            let (to, user) = (run.machine.state(*to), performance.user());
            let by = by.clone();
            let to_state = Move { action: ACTION, to, by, set: Map::new(), effects, user, record: Record::default() };
            Ok(enter(run, to_state, cx)?)
        }
        AfterEffect::Do(name) => {
            let Some(action) = definition.action(name) else { return Ok(Vec::new()) };
            let performance = Performance::of_server(name, &by, None);
            perform(run, action, performance, by.clone(), Some(of_timer), Record::default(), cx)
        }
        AfterEffect::None => side_effects(run, definition, (step, open), after, of_timer, cx),
    }
}

/// Rule 3.
fn side_effects(
    run: MachineRun<'_>,
    definition: &MachineState,
    (step, open): (&StepKey, &Open),
    after: &After,
    of_timer: EffectList<'_>,
    cx: Cx<'_>,
) -> Result<Vec<Event>, Hindrance> {
    let timer = Actor::system(Actor::TIMER);
    let user = Performance::of_server(ACTION, &timer, None).user();
    let lookup = MachineContext::new(run, run.progress.context.value(), Some(ACTION), &user, cx);
    let state = definition.name.as_str();
    let version_no = run.progress.version_no;
    let facts = DeliveryFacts { action: ACTION, from: Some(state), to: state, version_no, by: &timer, comment: None };
    let delivered = deliver(run, &[of_timer], &facts, &lookup, cx)?;
    let mut events = Vec::new();
    let mut moves = None;
    for effect in &after.events {
        match &effect.kind {
            SideEffectKind::Assign { who } => {
                let who = persons(who, &lookup, cx, "the persons that a timer assigns")?;
                let change = AssignmentChange::Who(who);
                let assigned = Assigned { change, by: timer.clone(), reason: None, request: None };
                events.push(Event::Assigned(Box::new(assigned)));
            }
            SideEffectKind::AutoAction { action: name, payload } if moves.is_none() => {
                let Some(action) = definition.action(name) else { continue };
                let by = Actor::system(Actor::AUTO);
                let data: Option<Payload> = auto_data(name, payload.as_ref(), &lookup, cx)?;
                let performance = Performance::of_server(name, &by, data.as_ref().map(Payload::value));
                let record = Record { data: data.clone(), is_delivering: !delivered.is_empty(), ..Record::default() };
                match perform(run, action, performance, by.clone(), None, record, cx) {
                    Ok(events) => moves = Some(events),
                    Err(Hindrance::Unmet(_)) => {}
                    Err(failure @ Hindrance::Failure(_)) => return Err(failure),
                }
            }
            SideEffectKind::AutoAction { .. } | SideEffectKind::Deliver(_) => {}
        }
    }
    events.extend(delivered);
    match moves {
        Some(moves) => events.extend(moves),
        None => events.extend(set_again(step, open, after, cx)),
    }
    Ok(events)
}

/// The next time of a timer that repeats.
fn set_again(step: &StepKey, open: &Open, after: &After, cx: Cx<'_>) -> Option<Event> {
    let repeat = after.repeat.filter(|repeat| open.attempt < repeat.times)?;
    let next = open.timer.unwrap_or(cx.now).plus(repeat.every);
    // After a pause the times that have passed are left out.
    let due = if next > cx.now { next } else { cx.now.plus(repeat.every) };
    Some(Event::TimerSet { step: step.clone(), attempt: open.attempt + 1, due, why: TimerPurpose::After })
}

/// The next time at which a timer moves the machine, and where it leads.
pub(super) fn next_exit(run: MachineRun<'_>) -> Option<(Timestamp, Option<&str>)> {
    let (_, definition) = run.place()?;
    let timers = definition.after.iter().enumerate().filter(|(_, after)| after.effect != AfterEffect::None);
    let open = timers.filter_map(|(n, after)| {
        let due = run.state.open.get(&step_of_timer(run.progress.version_no, n))?.timer?;
        Some((due, target(run, definition, after)))
    });
    open.min_by_key(|(due, _)| *due)
}
