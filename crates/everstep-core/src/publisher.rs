//! The publisher of a version: who has saved it, with the permissions with which its steps act.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::actor::{self, Actor};

/// The permission that steps which read records and links need.
pub const READ: &str = "workflow:read";
/// The permission that steps which write records and links need.
pub const MANAGE: &str = "workflow:manage";

/// The permissions of versions that were saved before publishers were stored.
const PERMISSIONS_BEFORE: [&str; 5] = ["workflow:act", MANAGE, "workflow:publish", READ, "workflow:view"];

/// Who has saved a version. The permissions are a copy: a key that is revoked or changed later does not change them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publisher {
    /// Absent if it is not known.
    pub actor: Option<Actor>,
    /// The name of the key or the person, for readers.
    pub name: Option<String>,
    /// All permissions that the publisher had, also those that another one implies.
    permissions: BTreeSet<String>,
}

/// The actor and the name, as a database stores them.
#[derive(Serialize, Deserialize)]
struct StoredName {
    #[serde(with = "actor::as_text")]
    actor: Actor,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

impl Publisher {
    pub fn new(actor: Actor, name: Option<String>, permissions: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { actor: Some(actor), name, permissions: permissions.into_iter().map(Into::into).collect() }
    }

    /// Reads the columns of a version. A version without permissions was saved before publishers were stored.
    pub fn from_stored(publisher: Option<&str>, permissions: Option<&str>) -> Option<Self> {
        let permissions = permissions?.split_whitespace().map(str::to_owned).collect();
        let stored = publisher.and_then(|text| serde_json::from_str::<StoredName>(text).ok());
        let (actor, name) = stored.map_or((None, None), |stored| (Some(stored.actor), stored.name));
        Some(Self { actor, name, permissions })
    }

    /// The actor and the name, for a database.
    pub fn stored_name(&self) -> Option<String> {
        let stored = StoredName { actor: self.actor.clone()?, name: self.name.clone() };
        Some(serde_json::to_string(&stored).expect("an actor is plain data"))
    }

    /// The permissions with spaces between them, in the order of their names.
    pub fn permission_text(&self) -> String {
        self.permissions.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    pub fn may(&self, permission: &str) -> bool {
        self.permissions.contains(permission)
    }
}

impl Default for Publisher {
    /// The publisher of a version that was saved before publishers were stored.
    fn default() -> Self {
        Self { actor: None, name: None, permissions: PERMISSIONS_BEFORE.map(str::to_owned).into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publisher_is_read_back_as_it_was_stored() {
        let publisher = Publisher::new(Actor::key("7"), Some("ci".to_owned()), ["workflow:view", READ]);
        assert_eq!(publisher.permission_text(), "workflow:read workflow:view");
        let (name, permissions) = (publisher.stored_name(), publisher.permission_text());
        assert_eq!(name.as_deref(), Some(r#"{"actor":"key:7","name":"ci"}"#));
        assert_eq!(Publisher::from_stored(name.as_deref(), Some(&permissions)), Some(publisher));
    }

    #[test]
    fn a_version_without_permissions_may_write() {
        assert_eq!(Publisher::from_stored(None, None), None);
        let before = Publisher::default();
        assert!(before.may(READ) && before.may(MANAGE) && !before.may("workflow:admin"));
        let nothing = Publisher::from_stored(None, Some("")).unwrap();
        assert!(!nothing.may(READ) && nothing.actor.is_none());
    }
}
