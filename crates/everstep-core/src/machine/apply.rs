//! The fold of a machine's run: how each entry changes its progress. It evaluates nothing.

use std::sync::Arc;

use super::model::Machine;
use super::progress::{LastTransition, Place, Progress};
use super::run::step_of_run;
use super::shown::ShownDigest;
use super::timers::{is_hasty, step_of_timer};
use super::{Applied, AssignmentChange};
use crate::actor::Actor;
use crate::ids::StepKey;
use crate::journal::{Assigned, Dispatch, Entry, Event, TimerPurpose, TransitionApplied, VoteCast};
use crate::payload::Payload;
use crate::planted::{self, Bug};
use crate::run::apply::{Fold, Folded};
use crate::run::delivery::OpenDelivery;
use crate::run::{Activity, Open, OpenSteps};

const NOT_OPEN: &str = "the step is not open";
const NO_STATE: &str = "the machine has no state yet";

/// Folds one entry.
pub(crate) fn fold(machine: &Machine, progress: &mut Progress, fold: Fold<'_>) -> Folded {
    let Fold { run, open, entry, .. } = fold;
    let mut since = None;
    match &entry.event {
        Event::RunStarted { input, .. } => {
            let is_object = input.value().is_object();
            progress.context = if is_object { input.clone() } else { Payload::from(serde_json::json!({})) };
        }
        Event::TransitionApplied(applied) => {
            transition(machine, progress, entry, applied)?;
            // Steps of the state that was left: its timers, and the run that it waits for. Deliveries stay open.
            let left = if planted::is_planted(Bug::TimerOutlivesItsState) { "@run" } else { "@" };
            open.drop_within(run, left, entry.seq);
        }
        Event::VoteCast(vote) => cast(progress, entry, vote)?,
        Event::Assigned(assigned) => assign(progress, entry, assigned)?,
        Event::ContextSet { values } => {
            if let (Some(place), Some(fields)) = (&mut progress.place, values.value().as_object()) {
                place.changed.extend(fields.keys().cloned());
                place.shown = ShownDigest::default();
            }
            progress.merge(values);
            progress.is_answer_open = false;
        }
        Event::TimerSet { step, due, why: TimerPurpose::Retry, .. } => open.back_off(step, *due).ok_or(NOT_OPEN)?,
        Event::TimerSet { step, attempt, due, why } => {
            if *why != TimerPurpose::After {
                return Err("a state machine sets no timer with this purpose");
            }
            let place = progress.place.as_ref().ok_or(NO_STATE)?;
            let timers = machine.find_state(&place.state).map_or(0, |state| state.after.len());
            let is_of_state = |n: usize| step_of_timer(progress.version_no, n) == *step;
            if open.contains(step) || !(0..timers).any(is_of_state) {
                return Err("the state has no such timer");
            }
            open.insert(step.clone(), Open::new(*attempt, Activity::Delay, Some(*due), entry.at));
        }
        Event::TimerFired { step, .. } if is_delivery(open, step) => _ = open.fire(step).ok_or(NOT_OPEN)?,
        Event::TimerFired { step, .. } => {
            let closed = open.close(step).ok_or(NOT_OPEN)?;
            if closed.activity != Activity::Delay {
                return Err("the step has no timer");
            }
            since = Some(closed.since);
            progress.is_answer_open = false;
            // The actions that a timer performs after a while are not a loop, however many there were before.
            if !is_hasty(progress.entered_at(), entry.at) {
                progress.autos = 0;
            }
        }
        Event::StepDispatched { step, attempt, dispatch: Dispatch::Delivery(delivery) } => {
            let last = &progress.place.as_ref().ok_or(NO_STATE)?.last;
            let delivery = OpenDelivery::new(Arc::clone(delivery), last.seq, last.at);
            open.deliver(run, (step, *attempt), delivery, entry.at).ok_or("the delivery is open")?;
        }
        Event::StepDispatched { step, attempt, dispatch } if is_delivery(open, step) => {
            // A delivery is dispatched again only if its task was lost or it is retried.
            let is_again = |open: &Open| matches!(open.activity, Activity::Task | Activity::Again);
            let is_same = match dispatch {
                Dispatch::Task => true,
                Dispatch::Child(child) => !child.waits,
                Dispatch::Instant
                | Dispatch::Publish
                | Dispatch::Delay { .. }
                | Dispatch::Wait { .. }
                | Dispatch::Body { .. }
                | Dispatch::Delivery(_) => false,
            };
            if !is_same || !open.get(step).is_some_and(is_again) {
                return Err("the delivery is not dispatched again");
            }
            open.dispatch(run, (step, *attempt), dispatch, false, entry.at);
        }
        Event::StepDispatched { step, attempt, dispatch } => {
            let has_run = progress.place.as_ref().and_then(|place| machine.find_state(&place.state));
            let is_expected = has_run.is_some_and(|state| state.run.is_some())
                && *step == step_of_run(progress.version_no)
                && matches!(dispatch, Dispatch::Child(_))
                && progress.place.as_ref().is_some_and(|place| place.run_end.is_none());
            if !is_expected || (open.contains(step) && !open.has_foreign_child(run, step)) {
                return Err("the state starts no such run");
            }
            open.dispatch(run, (step, *attempt), dispatch, false, entry.at);
        }
        Event::StepCompleted { step, .. } if is_delivery(open, step) => {
            since = Some(open.close(step).ok_or(NOT_OPEN)?.since);
        }
        Event::StepFailed { step, failure, .. } if is_delivery(open, step) => {
            since = Some(open.get(step).ok_or(NOT_OPEN)?.since);
            open.fail_delivery(run, step, failure, entry).ok_or(NOT_OPEN)?;
        }
        Event::StepCompleted { step, outcome, .. } => {
            since = Some(open.close(step).ok_or(NOT_OPEN)?.since);
            progress.place.as_mut().ok_or(NO_STATE)?.run_end = Some(Ok(outcome.output.clone()));
            progress.is_answer_open = false;
        }
        Event::StepFailed { step, failure, .. } => {
            since = Some(open.close(step).ok_or(NOT_OPEN)?.since);
            progress.place.as_mut().ok_or(NO_STATE)?.run_end = Some(Err(failure.clone()));
            progress.is_answer_open = false;
        }
        Event::RunPaused { .. } => progress.is_answer_open = false,
        Event::RunResumed => (progress.autos, progress.is_answer_open) = (0, false),
        Event::RunCompleted { .. } | Event::RunFailed { .. } | Event::RunCancelled { .. } => {}
        Event::RunRetried => return Err("a run of a state machine is not retried"),
        Event::StepSkipped { step } if is_delivery(open, step) => drop(open.close(step)),
        Event::StepSkipped { .. } => return Err("a state machine skips only deliveries"),
        Event::WaitOpened { .. }
        | Event::WaitResolved { .. }
        | Event::SignalBuffered { .. }
        | Event::TurnStarted { .. }
        | Event::TurnLost { .. } => return Err("it belongs to a code workflow"),
    }
    Ok(since)
}

fn is_delivery(open: &OpenSteps, step: &StepKey) -> bool {
    open.get(step).is_some_and(|open| open.delivery.is_some())
}

fn transition(
    machine: &Machine,
    progress: &mut Progress,
    entry: &Entry,
    applied: &TransitionApplied,
) -> Result<(), &'static str> {
    if applied.from.as_deref() != progress.state_name() {
        return Err("the machine is in another state");
    }
    if applied.version_no != progress.version_no + 1 {
        return Err("the version does not follow the one before it");
    }
    let Some(entered) = machine.find_state(&applied.to) else { return Err("the machine has no such state") };
    progress.autos = if is_in_a_row(progress, entry, applied) { progress.autos + 1 } else { 0 };
    answer_transition(progress, entry, applied, entered.is_terminal());
    for actor in std::iter::once(&applied.by).chain(&applied.on_behalf_of).chain(&applied.votes) {
        progress.record_participant(actor);
        progress.record_performed(&applied.action, actor);
    }
    progress.files.extend(applied.files.iter().cloned());
    if !applied.assigned.iter().all(|name| progress.assigned_ever.contains(name)) {
        progress.assigned_ever.extend(applied.assigned.iter().cloned());
    }
    for values in applied.data.iter().chain(&applied.set) {
        progress.merge(values);
    }
    progress.version_no = applied.version_no;
    progress.place = Some(Place {
        state: applied.to.clone(),
        last: LastTransition {
            seq: entry.seq,
            at: entry.at,
            action: applied.action.clone(),
            from: applied.from.clone(),
            by: applied.by.clone(),
            votes: applied.votes.clone(),
        },
        assigned: applied.assigned.clone(),
        ballots: applied.voters.clone(),
        votes: Default::default(),
        changed: Default::default(),
        auto: applied.auto.clone(),
        run_end: None,
        shown: ShownDigest::default(),
        end: applied.end.clone(),
    });
    Ok(())
}

/// Whether a transition followed at once, without an input: by a side effect, by a timer that was due when the state was
/// entered, or by a run that failed when it was started. Without a bound, such transitions could form an endless loop.
fn is_in_a_row(progress: &Progress, entry: &Entry, applied: &TransitionApplied) -> bool {
    let is_after_failure = progress.place.as_ref().is_some_and(|place| matches!(place.run_end, Some(Err(_))));
    let may_be_at_once = applied.by.is_system(Actor::TIMER) || applied.by.is_system(Actor::RUN) && is_after_failure;
    applied.by.is_system(Actor::AUTO) || may_be_at_once && is_hasty(progress.entered_at(), entry.at)
}

/// The answer to the request that caused a transition, or that the transition follows in its item. The entries of an item
/// have the same time, and a later item has a later one: see [`crate::run::decide`]. A transition of a later item is not
/// part of the answer, which the caller has received.
fn answer_transition(progress: &mut Progress, entry: &Entry, applied: &TransitionApplied, is_completed: bool) {
    let is_of_server = [Actor::QUORUM, Actor::STALEMATE, Actor::AUTO].iter().any(|name| applied.by.is_system(name));
    let is_request = !is_of_server && !applied.by.is_system(Actor::TIMER) && !applied.by.is_system(Actor::RUN);
    match (&applied.from, &mut progress.answer) {
        (Some(from), _) if is_request => {
            progress.is_answer_open = true;
            progress.answer = Some(Applied {
                applied: true,
                previous_state: from.clone(),
                next_state: applied.to.clone(),
                seq: entry.seq,
                at: entry.at,
                is_completed,
                version_no: applied.version_no,
                votes: None,
                repeated: false,
            });
        }
        (Some(_), Some(answer)) if is_of_server && progress.is_answer_open && answer.at == entry.at => {
            (answer.applied, answer.is_completed) = (true, is_completed);
            (answer.next_state, answer.version_no) = (applied.to.clone(), applied.version_no);
        }
        (Some(_) | None, _) => progress.is_answer_open = false,
    }
}

fn cast(progress: &mut Progress, entry: &Entry, vote: &VoteCast) -> Result<(), &'static str> {
    if vote.version_no != progress.version_no {
        return Err("the vote is for another version");
    }
    let place = progress.place.as_mut().ok_or(NO_STATE)?;
    let ballot = place.ballots.get(&vote.action).ok_or("the action has no quorum")?;
    let principal = vote.principal();
    let is_voter = |voters: &Vec<String>| voters.iter().any(|voter| principal.is_named(voter));
    if ballot.of.as_ref().is_some_and(|voters| !is_voter(voters)) && !planted::is_planted(Bug::VotersResolvedAgain) {
        return Err("the person is not among the voters");
    }
    let is_standing = place.votes.get(principal) == Some(&vote.action);
    if is_standing != vote.is_withdrawn && !planted::is_planted(Bug::VoteCountedTwice) {
        return Err("the vote does not change anything");
    }
    match vote.is_withdrawn {
        true => place.votes.remove(principal),
        false => place.votes.insert(principal.clone(), vote.action.clone()),
    };
    for actor in std::iter::once(&vote.by).chain(&vote.on_behalf_of) {
        progress.record_participant(actor);
    }
    progress.files.extend(vote.files.iter().cloned());
    let tally = progress.tally(&vote.action);
    answer_in_place(progress, entry, tally);
    Ok(())
}

fn assign(progress: &mut Progress, entry: &Entry, assigned: &Assigned) -> Result<(), &'static str> {
    let place = progress.place.as_mut().ok_or(NO_STATE)?;
    match &assigned.change {
        AssignmentChange::Who(names) => {
            place.assigned.clone_from(names);
            progress.assigned_ever.extend(names.iter().cloned());
        }
        AssignmentChange::Voter { from, to } => {
            for voters in place.ballots.values_mut().filter_map(|ballot| ballot.of.as_mut()) {
                let Some(voter) = voters.iter().position(|voter| voter == from) else { continue };
                if voters.contains(to) {
                    return Err("the person is among the voters already");
                }
                voters[voter].clone_from(to);
            }
        }
    }
    progress.record_participant(&assigned.by);
    if assigned.by.kind != crate::actor::ActorKind::System {
        answer_in_place(progress, entry, None);
    }
    Ok(())
}

/// The answer to a request that does not move the machine, unless a transition follows in its item.
fn answer_in_place(progress: &mut Progress, entry: &Entry, votes: Option<super::Tally>) {
    let state = progress.state_name().unwrap_or_default().to_owned();
    progress.is_answer_open = true;
    progress.answer = Some(Applied {
        applied: false,
        previous_state: state.clone(),
        next_state: state,
        seq: entry.seq,
        at: entry.at,
        is_completed: false,
        version_no: progress.version_no,
        votes,
        repeated: false,
    });
}
