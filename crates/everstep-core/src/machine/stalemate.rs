//! Finds states in which all voters may have voted without reaching a quorum.
//!
//! 1. Each voter has one vote, for one of the actions of the state that has a quorum and names the voter. An action
//!    without `of` accepts the vote of every voter.
//! 2. A stalemate is possible if every voter can vote for an action that then has fewer votes than it needs: if the
//!    actions have room for all voters, an action for one vote less than its need.
//! 3. If templates name voters, their number is not known. Then every number is tried, and all actions count as
//!    actions of the same voters.
//! 4. `onStalemate`, and a timer that moves the machine, end a stalemate.

use std::collections::BTreeSet;

use serde_json::Value;

use super::model::{AfterEffect, MachineState, Need, Quorum};
use super::problem_code as code;
use super::read::is_template;
use crate::definition::Problem;

/// Numbers of voters that are tried beyond the least possible one. Majorities and percentages repeat after fewer.
const TRIED_VOTERS: u32 = 200;

pub(super) fn check(states: &[MachineState], problems: &mut Vec<Problem>) {
    for (number, state) in states.iter().enumerate() {
        let moves = state.after.iter().any(|after| !matches!(after.effect, AfterEffect::None));
        if moves || state.on_stalemate.is_some() || !may_stall(state) {
            continue;
        }
        let message = "all voters may have voted without reaching a quorum";
        problems.push(
            Problem::at(format!("/states/{number}"), format!("in the state {:?}, {message}", state.name))
                .code(code::QUORUM_STALEMATE)
                .hint("add onStalemate, or a timer under `after` that moves the machine, or lower a need"),
        );
    }
}

fn may_stall(state: &MachineState) -> bool {
    let quorums: Vec<&Quorum> = state.on.iter().filter_map(|action| action.quorum.as_ref()).collect();
    let named = || quorums.iter().filter_map(|quorum| quorum.voters.as_ref());
    // With one action, the last vote reaches any quorum that can be reached.
    if quorums.len() < 2 || named().next().is_none() {
        return false;
    }
    if named().flatten().any(is_template) {
        let counts = quorums.iter().filter_map(|quorum| match quorum.need {
            Need::Count(count) => Some(count),
            Need::All | Need::Majority | Need::Any | Need::Percent(_) => None,
        });
        let least = counts.max().unwrap_or(1);
        return (least..=least + TRIED_VOTERS).any(|voters| {
            let room: u32 = quorums.iter().map(|quorum| quorum.need.votes(voters) - 1).sum();
            room >= voters
        });
    }
    let voters: BTreeSet<&str> = named().flatten().filter_map(Value::as_str).collect();
    has_room(&quorums, &voters)
}

/// Whether each voter can be given to an action that has room for the vote: a matching by augmenting paths.
fn has_room(quorums: &[&Quorum], voters: &BTreeSet<&str>) -> bool {
    let voters: Vec<&str> = voters.iter().copied().collect();
    let allowed: Vec<Vec<usize>> = voters
        .iter()
        .map(|voter| {
            let may_vote = |quorum: &Quorum| {
                quorum.voters.as_ref().is_none_or(|of| of.iter().any(|name| name.as_str() == Some(voter)))
            };
            (0..quorums.len()).filter(|action| may_vote(quorums[*action])).collect()
        })
        .collect();
    let room: Vec<usize> = quorums
        .iter()
        .map(|quorum| {
            let own = quorum
                .voters
                .as_ref()
                .map_or(voters.len(), |of| of.iter().filter_map(Value::as_str).collect::<BTreeSet<_>>().len());
            let own: u32 = own.try_into().unwrap_or(u32::MAX);
            (quorum.need.votes(own) - 1) as usize
        })
        .collect();
    let mut given: Vec<Vec<usize>> = vec![Vec::new(); quorums.len()];
    (0..voters.len()).all(|voter| give(voter, &allowed, &room, &mut given, &mut vec![false; quorums.len()]))
}

/// Gives a voter to an action, moving other voters if all its actions are full.
fn give(
    voter: usize,
    allowed: &[Vec<usize>],
    room: &[usize],
    given: &mut [Vec<usize>],
    is_tried: &mut Vec<bool>,
) -> bool {
    for action in &allowed[voter] {
        if std::mem::replace(&mut is_tried[*action], true) {
            continue;
        }
        if given[*action].len() < room[*action] {
            given[*action].push(voter);
            return true;
        }
        for place in 0..given[*action].len() {
            let other = given[*action][place];
            if give(other, allowed, room, given, is_tried) {
                given[*action][place] = voter;
                return true;
            }
        }
    }
    false
}
