//! The progress of a machine's run: its state, its context, its votes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::shown::ShownDigest;
use super::{Applied, Tally};
use crate::actor::{Actor, ActorKind};
use crate::failure::Failure;
use crate::journal::{AutoAction, Ballot, DecidedEnd};
use crate::payload::Payload;
use crate::time::Timestamp;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// An object: the input, the merged data of requests and the values that were set.
    pub(crate) context: Payload,
    /// The number of transitions so far.
    pub(crate) version_no: u32,
    /// None before the first state.
    pub(crate) place: Option<Place>,
    /// The persons and programs that acted, voted or assigned.
    pub(crate) participants: BTreeSet<Actor>,
    /// The persons to whom a state was ever assigned.
    pub(crate) assigned_ever: BTreeSet<String>,
    /// The actors that performed each action, on their own behalf or for another person.
    pub(crate) performed: BTreeMap<String, BTreeSet<Actor>>,
    /// The files of all requests so far. A file belongs to one of them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) files: BTreeSet<String>,
    /// Transitions in a row that the server performed at once.
    pub(crate) autos: u32,
    /// The answer to the last request, with the transitions that followed in its item.
    pub(crate) answer: Option<Applied>,
    /// Whether the next transition of the server follows from the last request.
    pub(crate) is_answer_open: bool,
}

/// The state that a machine is in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Place {
    pub(crate) state: String,
    pub(crate) last: LastTransition,
    pub(crate) assigned: Vec<String>,
    /// The votes that each action needs, for actions with a quorum.
    pub(crate) ballots: BTreeMap<String, Ballot>,
    /// The votes that count now, each by the person whose vote it is.
    #[serde(with = "pairs")]
    pub(crate) votes: BTreeMap<Actor, String>,
    /// Names of the context that were set since the state was entered.
    pub(crate) changed: BTreeSet<String>,
    /// The action that follows without a request.
    pub(crate) auto: Option<AutoAction>,
    /// The end of the run that the state started.
    pub(crate) run_end: Option<Result<Payload, Failure>>,
    /// The digest of the values that the state shows, once it was computed.
    #[serde(skip)]
    pub(crate) shown: ShownDigest,
    /// How the machine's run ends after its last delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<DecidedEnd>,
}

/// The transition that entered the present state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastTransition {
    pub seq: u64,
    pub at: Timestamp,
    pub action: String,
    /// The state before; none for the start of the run.
    pub from: Option<String>,
    pub by: Actor,
    /// The votes that reached the quorum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Actor>,
}

impl Progress {
    /// The name of the present state; none before the first.
    pub fn state_name(&self) -> Option<&str> {
        self.place.as_ref().map(|place| place.state.as_str())
    }

    /// The number of transitions so far, the start included.
    pub fn version_no(&self) -> u32 {
        self.version_no
    }

    /// When the present state was entered.
    pub fn entered_at(&self) -> Option<Timestamp> {
        self.place.as_ref().map(|place| place.last.at)
    }

    /// The persons to whom the present state is assigned.
    pub fn assigned(&self) -> &[String] {
        self.place.as_ref().map_or(&[], |place| &place.assigned)
    }

    /// The votes of each action of the present state that needs several.
    pub fn votes(&self) -> Vec<Tally> {
        let actions = self.place.iter().flat_map(|place| place.ballots.keys());
        actions.filter_map(|action| self.tally(action)).collect()
    }

    pub fn last_transition(&self) -> Option<&LastTransition> {
        self.place.as_ref().map(|place| &place.last)
    }

    /// The input, the merged data of requests and the values that were set, as an object.
    pub fn context(&self) -> &Payload {
        &self.context
    }

    /// How the run ends after its last delivery, if the machine is in a terminal state.
    pub(crate) fn decided_end(&self) -> Option<&DecidedEnd> {
        self.place.as_ref()?.end.as_ref()
    }

    /// The answer to the last request.
    pub(crate) fn answer(&self) -> Option<&Applied> {
        self.answer.as_ref()
    }

    /// Whether a transition of the server would be part of the answer to the last request, if it followed in its item.
    pub(crate) fn has_open_answer(&self) -> bool {
        self.is_answer_open
    }

    /// The votes of an action; none if it has no quorum.
    pub(crate) fn tally(&self, action: &str) -> Option<Tally> {
        let place = self.place.as_ref()?;
        let ballot = place.ballots.get(action)?;
        let by: Vec<_> = place.votes_for(action).cloned().collect();
        let count = u32::try_from(by.len()).unwrap_or(u32::MAX);
        Some(Tally { action: action.to_owned(), count, need: ballot.need, of: ballot.of.clone(), by })
    }

    /// Whether a transition follows without an input.
    pub(crate) fn has_ready_steps(&self) -> bool {
        self.place.as_ref().is_none_or(|place| place.auto.is_some() || place.run_end.is_some())
    }

    /// The approximate memory beside the context, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let persons = self.participants.len()
            + self.assigned_ever.len()
            + self.performed.values().map(|actors| actors.len() + 1).sum::<usize>();
        let place = self.place.as_ref().map_or(0, |place| {
            let voters = place.ballots.values().map(|ballot| ballot.of.as_ref().map_or(1, Vec::len)).sum::<usize>();
            512 + 64 * (place.assigned.len() + place.votes.len() + place.changed.len() + voters)
        });
        96 * persons + 64 * self.files.len() + place
    }

    /// Records that an actor took part, unless it is a part of the server.
    pub(crate) fn record_participant(&mut self, actor: &Actor) {
        if actor.kind != ActorKind::System && !self.participants.contains(actor) {
            self.participants.insert(actor.clone());
        }
    }

    pub(crate) fn record_performed(&mut self, action: &str, actor: &Actor) {
        if actor.kind == ActorKind::System {
            return;
        }
        match self.performed.get_mut(action) {
            Some(actors) if actors.contains(actor) => {}
            Some(actors) => drop(actors.insert(actor.clone())),
            None => drop(self.performed.insert(action.to_owned(), BTreeSet::from([actor.clone()]))),
        }
    }

    /// Merges an object into the context; later values replace earlier ones.
    pub(crate) fn merge(&mut self, values: &Payload) {
        if values.value().as_object().is_some_and(|fields| !fields.is_empty()) {
            self.context = super::context::merge(&self.context, [values]);
        }
    }
}

impl Place {
    pub(crate) fn votes_for(&self, action: &str) -> impl Iterator<Item = &Actor> {
        self.votes.iter().filter(move |(_, voted)| *voted == action).map(|(actor, _)| actor)
    }
}

/// A map whose keys are not texts, as a list of pairs.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use crate::actor::Actor;

    pub(super) fn serialize<S: Serializer>(votes: &BTreeMap<Actor, String>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(votes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<Actor, String>, D::Error> {
        Vec::<(Actor, String)>::deserialize(deserializer).map(|pairs| pairs.into_iter().collect())
    }
}
