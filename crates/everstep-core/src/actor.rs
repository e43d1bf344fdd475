//! Actors: the persons and components that act on runs.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A person or a component that acted. The kind comes from the credential and never from the id, so that a person whose
/// id is `@timer` or `key:7` is still a person.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    pub kind: ActorKind,
    /// A person's id at the identity provider, the id of a key, a worker or a run, or the name of a part of the server
    /// such as `@timer`.
    pub id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ActorKind {
    Person,
    Key,
    Worker,
    Run,
    /// A part of the server.
    System,
}

impl Actor {
    /// The server, for a run whose starter is not known.
    pub const START: &'static str = "@start";
    /// A timer of a state.
    pub const TIMER: &'static str = "@timer";
    /// The run that a state started.
    pub const RUN: &'static str = "@run";
    /// A side effect that performs an action.
    pub const AUTO: &'static str = "@auto";
    /// The votes that reached a quorum.
    pub const QUORUM: &'static str = "@quorum";
    /// Votes after which no quorum can be reached.
    pub const STALEMATE: &'static str = "@stalemate";

    pub fn new(kind: ActorKind, id: impl Into<String>) -> Self {
        Self { kind, id: id.into() }
    }

    pub fn person(id: impl Into<String>) -> Self {
        Self::new(ActorKind::Person, id)
    }

    pub fn key(id: impl Into<String>) -> Self {
        Self::new(ActorKind::Key, id)
    }

    pub fn system(name: &'static str) -> Self {
        Self::new(ActorKind::System, name)
    }

    /// Whether this is the part of the server with a name.
    pub fn is_system(&self, name: &str) -> bool {
        self.kind == ActorKind::System && self.id == name
    }

    /// The name by which definitions, contexts and readers know the actor: `ann`, `key:7f…`, `run:0198…`, `@timer`. No
    /// two actors share one: a person whose id looks like the name of another kind is `person:` and the id.
    pub fn name(&self) -> Cow<'_, str> {
        let prefix = match self.kind {
            ActorKind::Person if !is_name_of_another_kind(&self.id) => return Cow::Borrowed(&self.id),
            ActorKind::System => return Cow::Borrowed(&self.id),
            ActorKind::Person => PERSON,
            ActorKind::Key => KEY,
            ActorKind::Worker => WORKER,
            ActorKind::Run => RUN,
        };
        Cow::Owned(format!("{prefix}{}", self.id))
    }

    /// Whether a name in a definition or in a context means this actor. Only persons and keys are named there.
    pub fn is_named(&self, name: &str) -> bool {
        match self.kind {
            ActorKind::Person | ActorKind::Key => self.name() == name,
            ActorKind::Worker | ActorKind::Run | ActorKind::System => false,
        }
    }
}

const PERSON: &str = "person:";
const KEY: &str = "key:";
const WORKER: &str = "worker:";
const RUN: &str = "run:";

/// Whether a person's id could be taken for the name of a part of the server, a key, a worker or a run.
fn is_name_of_another_kind(id: &str) -> bool {
    ["@", PERSON, KEY, WORKER, RUN].iter().any(|prefix| id.starts_with(prefix))
}

/// As [`Actor::name`].
impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}
