//! Requests of persons and programs to a machine's run.

use super::context::is_person;
use super::examine::{Extent, Refusal, Request, check_phase, check_version};
use super::model::Machine;
use super::run::MachineRun;
use super::{Act, Assignment, AssignmentChange, FieldFault, code};
use crate::actor::ActorKind;
use crate::journal::{Assigned, Event};
use crate::limits;
use crate::run::decide::Draft;
use crate::run::{Cx, Reply};

/// Decides a request for an action; `examine.rs` has the order of the checks. A rejected request writes nothing.
pub(crate) fn on_act(draft: &mut Draft<'_>, machine: &Machine, act: &Act) -> Reply {
    let events = match prepare(draft, machine).and_then(|()| {
        let request = draft.has_key().then(|| act.digest.clone());
        let run = MachineRun::from_state(draft.workflow, machine, draft.state);
        decide_act(run, act, request, draft.cx)
    }) {
        Ok(events) => events,
        Err(refusal) => {
            let run = MachineRun::from_state(draft.workflow, machine, draft.state);
            return refusal.into_reply(run, &act.by);
        }
    };
    accept(draft, events)
}

/// Decides a request to assign the present state, or to replace one of its voters.
pub(crate) fn on_assignment(draft: &mut Draft<'_>, machine: &Machine, assignment: Assignment) -> Reply {
    let checked = prepare(draft, machine)
        .and_then(|()| check_assignment(MachineRun::from_state(draft.workflow, machine, draft.state), &assignment));
    let change = match checked {
        Ok(change) => change,
        Err(refusal) => {
            let run = MachineRun::from_state(draft.workflow, machine, draft.state);
            return refusal.into_reply(run, &assignment.by);
        }
    };
    let Assignment { by, reason, digest, .. } = assignment;
    let request = draft.has_key().then_some(digest);
    accept(draft, vec![Event::Assigned(Box::new(Assigned { change, by, reason, request }))])
}

/// The run must take requests; then due timers fire, before anything of the request is examined.
fn prepare(draft: &mut Draft<'_>, machine: &Machine) -> Result<(), Refusal> {
    check_phase(MachineRun::from_state(draft.workflow, machine, draft.state))?;
    draft.settle();
    draft.fire_due_timers();
    check_phase(MachineRun::from_state(draft.workflow, machine, draft.state))
}

fn decide_act(run: MachineRun<'_>, act: &Act, request: Option<String>, cx: Cx<'_>) -> Result<Vec<Event>, Refusal> {
    check_version(run, act)?;
    let found = Request::find(run, act, cx)?;
    match found.examine(Extent::First).pop() {
        Some(refusal) => Err(refusal),
        None => found.carry_out(request),
    }
}

/// Writes the events of an accepted request. The first one records it.
fn accept(draft: &mut Draft<'_>, events: Vec<Event>) -> Reply {
    let mut events = events.into_iter();
    if let Some(first) = events.next() {
        draft.accept(first);
    }
    let answer = draft.state.machine().and_then(super::Progress::answer).cloned();
    for event in events {
        draft.write(event);
    }
    answer.map_or(Reply::Accepted, |answer| Reply::Applied(Box::new(answer)))
}

/// Checks an assignment, and returns the change without repeated names.
fn check_assignment(run: MachineRun<'_>, assignment: &Assignment) -> Result<AssignmentChange, Refusal> {
    let Some((place, _)) = run.place() else {
        return Err(Refusal::new(code::ACTION_CLOSED, "the run has no state yet"));
    };
    let Assignment { by, rights, change, reason, .. } = assignment;
    let may_assign = rights.can_manage || place.assigned.iter().any(|name| by.is_named(name));
    if !may_assign || by.kind == ActorKind::System {
        let message = "only a person to whom the state is assigned, or a caller who may manage runs, may assign it";
        let required = vec!["assigned".to_owned(), "workflow:manage".to_owned()];
        return Err(Refusal { required, ..Refusal::new(code::PERMISSION_DENIED, message) });
    }
    if reason.as_ref().is_some_and(|reason| reason.chars().count() > limits::COMMENT_CHARS) {
        return Err(fault("reason", format!("a reason has at most {} characters", limits::COMMENT_CHARS)));
    }
    match change {
        AssignmentChange::Who(names) => {
            if names.is_empty() || names.len() > limits::PERSONS {
                return Err(fault("who", format!("expected 1 to {} names", limits::PERSONS)));
            }
            let mut who = Vec::<String>::new();
            for name in names {
                check_person("who", name)?;
                if !who.contains(name) {
                    who.push(name.clone());
                }
            }
            Ok(AssignmentChange::Who(who))
        }
        AssignmentChange::Voter { from, to } => {
            check_person("voter.to", to)?;
            let mut with_voter = place.ballots.values().filter_map(|ballot| ballot.of.as_ref()).peekable();
            if !with_voter.clone().any(|voters| voters.contains(from)) {
                return Err(fault("voter.from", format!("{from} is not a voter of the state {:?}", place.state)));
            }
            if with_voter.any(|voters| voters.contains(from) && voters.contains(to)) {
                return Err(fault("voter.to", format!("{to} is a voter already")));
            }
            if place.votes.keys().any(|actor| actor.is_named(from)) {
                return Err(Refusal::new(code::ALREADY_VOTED, format!("{from} has already voted in this state")));
            }
            Ok(change.clone())
        }
    }
}

fn check_person(field: &str, name: &str) -> Result<(), Refusal> {
    match is_person(name) {
        true => Ok(()),
        false => Err(fault(field, format!("a name has 1 to {} characters", limits::PERSON_CHARS))),
    }
}

fn fault(field: &str, message: impl Into<String>) -> Refusal {
    let message = message.into();
    let errors = vec![FieldFault { field: field.to_owned(), message: message.clone() }];
    Refusal { errors, ..Refusal::new(code::VALIDATION_ERROR, format!("{field}: {message}")) }
}
