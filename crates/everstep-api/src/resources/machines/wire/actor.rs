//! Persons and components that acted.

use everstep_core::actor;
use everstep_core::machine::Tally;
use schemars::JsonSchema;
use serde::Serialize;

/// A person or a component that acted. The kind comes from the credential, not from the id.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Actor {
    kind: ActorKind,
    /// A person's id at the identity provider, the id of a key, a worker or a run, or a part of the server: `@timer`.
    id: String,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum ActorKind {
    Person,
    Key,
    Worker,
    Run,
    /// A part of the server.
    System,
}

impl Actor {
    pub(crate) fn from_core(actor: actor::Actor) -> Self {
        let kind = match actor.kind {
            actor::ActorKind::Person => ActorKind::Person,
            actor::ActorKind::Key => ActorKind::Key,
            actor::ActorKind::Worker => ActorKind::Worker,
            actor::ActorKind::Run => ActorKind::Run,
            actor::ActorKind::System => ActorKind::System,
        };
        Self { kind, id: actor.id }
    }
}

/// The votes for an action of a state.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Votes {
    action: String,
    count: u32,
    need: u32,
    /// The voters, if the definition names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<Vec<String>>,
    /// The voters whose votes count now.
    by: Vec<Actor>,
}

impl Votes {
    pub(crate) fn from_tally(tally: Tally) -> Self {
        let Tally { action, count, need, of, by } = tally;
        Self { action, count, need, of, by: by.into_iter().map(Actor::from_core).collect() }
    }
}
