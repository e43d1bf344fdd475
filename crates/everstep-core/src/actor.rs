//! Actors: the persons and components that act on runs.

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

    /// Whether a name in a definition or in a context means this actor: a plain name is a person's id, `key:` and an id
    /// is a key.
    pub fn is_named(&self, name: &str) -> bool {
        match self.kind {
            ActorKind::Person => self.id == name,
            ActorKind::Key => name.strip_prefix("key:") == Some(self.id.as_str()),
            ActorKind::Worker | ActorKind::Run | ActorKind::System => false,
        }
    }
}

/// As people read it: `ann`, `key:7f…`, `run:0198…`, `@timer`.
impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ActorKind::Person | ActorKind::System => f.write_str(&self.id),
            ActorKind::Key => write!(f, "key:{}", self.id),
            ActorKind::Worker => write!(f, "worker:{}", self.id),
            ActorKind::Run => write!(f, "run:{}", self.id),
        }
    }
}
