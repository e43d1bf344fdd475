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
    /// The trigger that started a run.
    pub const TRIGGER: &'static str = "@trigger";
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
        match self.kind {
            ActorKind::Person if !is_name_of_another_kind(&self.id) => Cow::Borrowed(&self.id),
            ActorKind::System => Cow::Borrowed(&self.id),
            ActorKind::Person | ActorKind::Key | ActorKind::Worker | ActorKind::Run => Cow::Owned(self.to_text()),
        }
    }

    /// Whether a name in a definition or in a context means this actor. Only persons and keys are named there.
    pub fn is_named(&self, name: &str) -> bool {
        match self.kind {
            ActorKind::Person | ActorKind::Key => self.name() == name,
            ActorKind::Worker | ActorKind::Run | ActorKind::System => false,
        }
    }
}

impl Actor {
    /// The actor as one text, as the audit stores it: `person:…`, `key:…`, `worker:…`, `run:…`, or the name of a part
    /// of the server.
    pub fn to_text(&self) -> String {
        match self.kind.prefix() {
            Some(prefix) => format!("{prefix}{}", self.id),
            None => self.id.clone(),
        }
    }

    /// Reads what [`Actor::to_text`] writes. Any other text is the name of a part of the server.
    pub fn from_text(text: &str) -> Self {
        let mut read = ActorKind::WITH_PREFIX
            .into_iter()
            .filter_map(|kind| Some(Self::new(kind, text.strip_prefix(kind.prefix()?)?)));
        read.next().unwrap_or_else(|| Self::new(ActorKind::System, text))
    }
}

/// Whether a person's id could be taken for the name of a part of the server, a key, a worker or a run.
fn is_name_of_another_kind(id: &str) -> bool {
    id.starts_with('@')
        || ActorKind::WITH_PREFIX.iter().filter_map(|kind| kind.prefix()).any(|prefix| id.starts_with(prefix))
}

impl ActorKind {
    const WITH_PREFIX: [Self; 4] = [Self::Person, Self::Key, Self::Worker, Self::Run];

    /// The beginning of the text of an actor of this kind.
    fn prefix(self) -> Option<&'static str> {
        match self {
            Self::Person => Some("person:"),
            Self::Key => Some("key:"),
            Self::Worker => Some("worker:"),
            Self::Run => Some("run:"),
            Self::System => None,
        }
    }
}

/// Reads and writes an actor as one text: `#[serde(with = "as_text")]`.
pub mod as_text {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Actor;

    pub fn serialize<S: Serializer>(actor: &Actor, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&actor.to_text())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Actor, D::Error> {
        Ok(Actor::from_text(&String::deserialize(deserializer)?))
    }
}

/// As [`Actor::name`].
impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_is_read_back_from_its_text() {
        for actor in [
            Actor::person("https://issuer.example/ann"),
            Actor::person("key:7"),
            Actor::person("@timer"),
            Actor::key("7"),
            Actor::new(ActorKind::Worker, "host:1"),
            Actor::new(ActorKind::Run, "0198"),
            Actor::system(Actor::TIMER),
            Actor::system("command line"),
        ] {
            assert_eq!(Actor::from_text(&actor.to_text()), actor);
        }
        assert_eq!(Actor::key("7").to_text(), "key:7");
        assert_eq!(Actor::person("key:7").to_text(), "person:key:7");
    }

    #[test]
    fn a_person_is_never_named_as_another_kind() {
        let (person, key) = (Actor::person("key:7"), Actor::key("7"));
        assert!(key.is_named("key:7") && !key.is_named("7"));
        assert!(!person.is_named("key:7") && person.is_named("person:key:7") && Actor::person("ann").is_named("ann"));
        assert!(!Actor::system(Actor::TIMER).is_named("@timer") && !Actor::person("@timer").is_named("@timer"));
    }
}
