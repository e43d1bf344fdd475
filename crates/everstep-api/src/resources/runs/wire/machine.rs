//! The place of a run in its state machine.

use std::fmt::Write as _;

use everstep_core::machine::{Choice, Situation};
use everstep_engine::MachineSnapshot;
use schemars::JsonSchema;
use serde::Serialize;

use super::waiting::time;
use crate::http::time::Time;
use crate::resources::machines::wire::Votes;

/// The place of a run in its state machine.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Machine {
    state: String,
    /// The number of transitions, the start included. A transition that names another one is rejected.
    version_no: u32,
    entered_at: Time,
    /// When the next timer of the state is due.
    due: Option<Time>,
    /// The persons to whom the state is assigned.
    assigned: Vec<String>,
    /// The votes of each action that needs several.
    votes: Vec<Votes>,
}

impl Machine {
    pub(crate) fn from_snapshot(snapshot: MachineSnapshot) -> Self {
        let MachineSnapshot { situation, due, assigned, votes } = snapshot;
        Self {
            state: situation.state,
            version_no: situation.version_no,
            entered_at: Time::from_timestamp(situation.since),
            due: due.map(Time::from_timestamp),
            assigned,
            votes: votes.into_iter().map(Votes::from_tally).collect(),
        }
    }
}

/// Where a run is and what leads out of it, in one sentence without its beginning: "is in review since …: APPROVE by
/// Manager (1 of 3 votes) or REJECT; goes to escalated at …".
pub(super) fn sentence(situation: &Situation) -> String {
    let mut text = format!("is in {} since {}", situation.state, time(situation.since));
    let choices: Vec<_> = situation.choices.iter().map(clause).collect();
    if let Some((last, others)) = choices.split_last() {
        text += ": ";
        if !others.is_empty() {
            let _ = write!(text, "{} or ", others.join(", "));
        }
        text += last;
    }
    if let Some(child) = situation.child {
        let _ = write!(text, "; waits for child run {child}");
    }
    match situation.exit.as_ref().map(|exit| (time(exit.at), &exit.to)) {
        Some((at, Some(to))) => _ = write!(text, "; goes to {to} at {at}"),
        Some((at, None)) => _ = write!(text, "; a timer is due at {at}"),
        None => {}
    }
    match situation.deliveries {
        0 => {}
        1 => text += "; 1 side effect is to be performed",
        count => _ = write!(text, "; {count} side effects are to be performed"),
    }
    text
}

fn clause(choice: &Choice) -> String {
    let mut text = choice.action.clone();
    // The persons that are excluded are shown by the actions of the run.
    let by: Vec<_> = choice.by.iter().map(String::as_str).filter(|name| !name.starts_with("not by ")).collect();
    if !by.is_empty() {
        let _ = write!(text, " by {}", by.join(" or "));
    }
    if let Some(votes) = &choice.votes {
        let _ = write!(text, " ({} of {} votes)", votes.count, votes.need);
    }
    text
}

#[cfg(test)]
mod tests {
    use everstep_core::machine::{Exit, Tally};
    use everstep_core::time::Timestamp;

    use super::*;

    #[test]
    fn a_run_shows_its_state_and_the_ways_out_of_it() {
        let day = |n: i64| Timestamp::from_millis(1_763_251_200_000 + n * 86_400_000);
        let choice = |action: &str, by: &[&str], votes| Choice {
            action: action.to_owned(),
            title: None,
            by: by.iter().map(|name| (*name).to_owned()).collect(),
            votes,
        };
        let tally = Tally { action: "APPROVE".to_owned(), count: 1, need: 3, of: None, by: Vec::new() };
        let mut situation = Situation {
            state: "review".to_owned(),
            title: None,
            version_no: 2,
            since: day(0),
            choices: vec![choice("APPROVE", &["Manager", "not by @start"], Some(tally)), choice("REJECT", &[], None)],
            exit: Some(Exit { at: day(2), to: Some("escalated".to_owned()) }),
            child: None,
            deliveries: 0,
        };
        assert_eq!(
            sentence(&situation),
            "is in review since 2025-11-16T00:00:00Z: APPROVE by Manager (1 of 3 votes) or REJECT; goes to escalated at \
             2025-11-18T00:00:00Z"
        );
        situation.choices.push(choice("ASK", &["assigned", "user ann"], None));
        situation.exit = Some(Exit { at: day(2), to: None });
        assert!(sentence(&situation).contains(
            "APPROVE by Manager (1 of 3 votes), REJECT or ASK by assigned or user ann; a timer is due at 2025-11-18"
        ));
        (situation.choices, situation.exit) = (Vec::new(), None);
        assert_eq!(sentence(&situation), "is in review since 2025-11-16T00:00:00Z");
        situation.deliveries = 2;
        let delivering = "is in review since 2025-11-16T00:00:00Z; 2 side effects are to be performed";
        assert_eq!(sentence(&situation), delivering);
    }
}
