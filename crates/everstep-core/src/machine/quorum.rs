//! Votes: how many an action needs, and whether it has them.
//!
//! 1. The voters are resolved when the state is entered, and stay the same until it is left or one is replaced.
//! 2. `ALL`, `MAJORITY` and a percentage are of the voters; a percentage is rounded up. At least one vote is needed.
//! 3. A person has one vote per state. A vote for another action of the state replaces it.
//! 4. If all voters of the state have voted and no action has its quorum, the votes are a stalemate. There is none while
//!    an action counts the votes of any caller.

use std::collections::BTreeSet;

use super::code;
use super::context::{MachineContext, persons};
use super::model::Quorum;
use super::progress::Place;
use crate::actor::Actor;
use crate::failure::Failure;
use crate::journal::Ballot;
use crate::planted::{self, Bug};
use crate::run::Cx;

/// The votes that an action needs in a state that is being entered.
pub(super) fn resolve(
    action: &str,
    quorum: &Quorum,
    lookup: &MachineContext<'_>,
    cx: Cx<'_>,
) -> Result<Ballot, Failure> {
    let of = match &quorum.voters {
        None => None,
        Some(templates) => Some(persons(templates, lookup, cx, &format!("the voters of {action}"))?),
    };
    let count = of.as_ref().map(|voters| u32::try_from(voters.len()).unwrap_or(u32::MAX));
    let voters = count.unwrap_or(0);
    let need = quorum.need.votes(voters);
    match count {
        Some(count) if need > count => {
            let voters = if count == 1 { "voter" } else { "voters" };
            let message = format!("{action} needs {need} votes and has {count} {voters}");
            Err(Failure::fatal(code::QUORUM_IMPOSSIBLE, message))
        }
        Some(_) | None => Ok(Ballot { of, need }),
    }
}

/// The votes of a state if one person votes for an action, or withdraws the vote.
pub(super) struct Votes<'a> {
    place: &'a Place,
    principal: &'a Actor,
    action: &'a str,
}

impl<'a> Votes<'a> {
    pub(super) fn with(place: &'a Place, principal: &'a Actor, action: &'a str) -> Self {
        Self { place, principal, action }
    }

    /// The persons who vote for the action.
    pub(super) fn supporters(&self) -> Vec<Actor> {
        let is_counted = |actor: &&Actor| *actor != self.principal || planted::is_planted(Bug::VoteCountedTwice);
        let others = self.place.votes_for(self.action).filter(is_counted);
        let mut supporters: Vec<_> = others.chain([self.principal]).cloned().collect();
        supporters.sort();
        supporters
    }

    pub(super) fn reach_quorum(&self) -> bool {
        let need = self.place.ballots.get(self.action).map_or(u32::MAX, |ballot| ballot.need);
        u32::try_from(self.supporters().len()).is_ok_and(|count| count >= need)
    }

    /// Rule 4, for votes that do not reach the quorum of the action.
    pub(super) fn are_stalemate(&self) -> bool {
        let mut voters = BTreeSet::new();
        for ballot in self.place.ballots.values() {
            match &ballot.of {
                Some(of) => voters.extend(of),
                None => return false,
            }
        }
        // Each of a thousand voters may be compared with a thousand votes, at each of the votes.
        let voted: BTreeSet<_> = self.place.votes.keys().chain([self.principal]).map(Actor::name).collect();
        !voters.is_empty() && voters.iter().all(|voter| voted.contains(voter.as_str()))
    }
}
