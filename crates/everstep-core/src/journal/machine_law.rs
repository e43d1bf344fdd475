//! The laws of the entries of a machine. They are found again from the entries alone, beside the fold.

use std::collections::{BTreeMap, BTreeSet};

use super::{Ballot, Dispatch, Entry, Event, TimerPurpose, TransitionApplied, VoteCast};
use crate::actor::Actor;
use crate::ids::StepKey;
use crate::machine::AssignmentChange;
use crate::time::Timestamp;

/// 1. The first transition leads from no state and has the version 1. The `from` of every other is the `to` before it,
///    and its version is one more.
/// 2. A person has at most one vote per version; a vote is not repeated, and only an existing one is withdrawn.
/// 3. A transition by `@quorum` has the votes that were cast for its action, and as many as the action needs. Every
///    voter is among the voters of the action, if it has any.
/// 4. A timer belongs to the present version, is set once per attempt, and fires at most once per attempt and not early.
///    An attempt follows the one before it, after it has fired.
/// 5. A delivery is decided once. A machine whose end was decided enters no other state.
#[derive(Default)]
pub(super) struct MachineLaws {
    state: Option<String>,
    version_no: u32,
    ballots: BTreeMap<String, Ballot>,
    votes: BTreeMap<Actor, String>,
    /// The attempt of each timer, and when it is due unless it has fired.
    timers: BTreeMap<StepKey, (u32, Option<Timestamp>)>,
    /// Whether the end of the run was decided.
    is_over: bool,
    deliveries: BTreeSet<StepKey>,
}

impl MachineLaws {
    pub(super) fn check(&mut self, entry: &Entry) -> Result<(), String> {
        match &entry.event {
            Event::TransitionApplied(applied) => self.transition(applied),
            Event::VoteCast(vote) => self.vote(vote),
            Event::Assigned(assigned) => {
                if let AssignmentChange::Voter { from, to } = &assigned.change {
                    let voters = self.ballots.values_mut().filter_map(|ballot| ballot.of.as_mut()).flatten();
                    voters.filter(|voter| *voter == from).for_each(|voter| voter.clone_from(to));
                }
                Ok(())
            }
            Event::TimerSet { step, attempt, due, why: TimerPurpose::After } => {
                let is_of_version = step.as_str().starts_with(&format!("@after[{}].", self.version_no));
                match self.timers.insert(step.clone(), (*attempt, Some(*due))) {
                    None if is_of_version && *attempt == 1 => Ok(()),
                    Some((before, None)) if *attempt == before + 1 => Ok(()),
                    None => Err(format!("the timer {step} is set at version {}", self.version_no)),
                    Some(_) => Err(format!("the timer {step} is set twice")),
                }
            }
            Event::StepDispatched { step, dispatch: Dispatch::Delivery(_), .. } => {
                match self.deliveries.insert(step.clone()) {
                    true => Ok(()),
                    false => Err(format!("the delivery {step} is decided twice")),
                }
            }
            Event::TimerFired { step, .. } => match self.timers.get_mut(step) {
                Some((_, due)) => match due.take() {
                    Some(due) if due <= entry.at => Ok(()),
                    Some(due) => Err(format!("the timer {step} fires at {} and is due at {due}", entry.at)),
                    None => Err(format!("the timer {step} fires twice")),
                },
                // The delay before another attempt of a delivery.
                None if self.deliveries.contains(step) => Ok(()),
                // A timer of another purpose, or of a state that was left.
                None if step.as_str().starts_with("@after[") => Err(format!("the timer {step} is not set")),
                None => Ok(()),
            },
            Event::TimerSet { .. }
            | Event::RunStarted { .. }
            | Event::StepDispatched { .. }
            | Event::StepCompleted { .. }
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::WaitOpened { .. }
            | Event::WaitResolved { .. }
            | Event::SignalBuffered { .. }
            | Event::TurnStarted { .. }
            | Event::TurnLost { .. }
            | Event::ContextSet { .. }
            | Event::RunPaused { .. }
            | Event::RunResumed
            | Event::RunRetried
            | Event::RunCompleted { .. }
            | Event::RunFailed { .. }
            | Event::RunCancelled { .. } => Ok(()),
        }
        .map_err(|law| format!("entry {}: {law}", entry.seq))
    }

    fn transition(&mut self, applied: &TransitionApplied) -> Result<(), String> {
        if applied.from != self.state {
            return Err(format!("a transition from {:?}, and the state is {:?}", applied.from, self.state));
        }
        if applied.version_no != self.version_no + 1 {
            return Err(format!("version {} after version {}", applied.version_no, self.version_no));
        }
        if std::mem::replace(&mut self.is_over, applied.end.is_some()) {
            return Err("a transition after the end of the run was decided".to_owned());
        }
        if applied.by.is_system(Actor::QUORUM) {
            let cast = self.votes.iter().filter(|(_, action)| **action == applied.action).map(|(actor, _)| actor);
            let need = self.ballots.get(&applied.action).map_or(u32::MAX, |ballot| ballot.need);
            if !cast.eq(&applied.votes) {
                return Err(format!("the votes {:?} are not those that were cast", applied.votes));
            }
            if u32::try_from(applied.votes.len()).is_ok_and(|count| count < need) {
                return Err(format!("{} votes of {need} are a quorum", applied.votes.len()));
            }
        } else if !applied.votes.is_empty() {
            return Err("a transition without a quorum has votes".to_owned());
        }
        (self.state, self.version_no) = (Some(applied.to.clone()), applied.version_no);
        self.ballots.clone_from(&applied.voters);
        self.votes.clear();
        self.timers.clear();
        Ok(())
    }

    fn vote(&mut self, vote: &VoteCast) -> Result<(), String> {
        let principal = vote.principal();
        if vote.version_no != self.version_no {
            return Err(format!("a vote for version {} at version {}", vote.version_no, self.version_no));
        }
        let voters = self.ballots.get(&vote.action).ok_or_else(|| format!("{} needs no votes", vote.action))?;
        if voters.of.as_ref().is_some_and(|voters| !voters.iter().any(|voter| principal.is_named(voter))) {
            return Err(format!("{principal} is not among the voters of {}", vote.action));
        }
        let standing = self.votes.get(principal) == Some(&vote.action);
        match (vote.is_withdrawn, standing) {
            (true, true) => drop(self.votes.remove(principal)),
            (false, false) => drop(self.votes.insert(principal.clone(), vote.action.clone())),
            (true, false) => return Err(format!("{principal} withdraws a vote that was not cast")),
            (false, true) => return Err(format!("{principal} votes twice for {}", vote.action)),
        }
        Ok(())
    }
}
