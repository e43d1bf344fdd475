//! The holder of the credential that a request carries.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use everstep_core::actor::Actor;
use everstep_core::ids::WorkspaceId;
use everstep_core::publisher::Publisher;
use everstep_core::time::Timestamp;
use everstep_store::KeyRow;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::audit;
use crate::auth::Permission;
use crate::auth::identity::{Person, VerifiedPerson};
use crate::http::problem::Problem;

/// The holder of an API key, or a person, with their permissions in a workspace.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) workspace: WorkspaceId,
    /// When the key or the token expires.
    pub(crate) expires_at: Option<Timestamp>,
    /// Whether the request carried a ticket in place of the key or the token.
    pub(crate) is_ticket: bool,
    pub(super) permissions: Arc<[Permission]>,
}

/// The identity of a caller.
#[derive(Clone, Debug)]
pub(crate) enum Principal {
    Key(KeyHolder),
    Person(Arc<Person>),
}

/// The holder of an API key.
#[derive(Clone, Debug)]
pub(crate) struct KeyHolder {
    pub(crate) id: Uuid,
    /// The key's name, for people.
    pub(crate) name: Arc<str>,
    pub(crate) role: Option<Arc<str>>,
    /// Requests per second, if the key has its own limit.
    pub(crate) rate_limit: Option<u32>,
    /// The key that made the one-time link, if one has created this key.
    pub(crate) maker: Option<Uuid>,
    pub(super) hash: [u8; 32],
}

impl KeyHolder {
    /// The id of the key as which the holder acts in runs.
    pub(crate) fn actor_id(&self) -> Uuid {
        self.maker.unwrap_or(self.id)
    }
}

impl Caller {
    pub(super) fn from_row(row: KeyRow) -> Self {
        // A permission that this build does not know permits nothing here.
        let permissions = row.permissions.iter().filter_map(|word| word.parse().ok()).collect();
        let holder = KeyHolder {
            id: row.id,
            name: row.name.into(),
            role: row.role.map(Into::into),
            rate_limit: row.rate_limit,
            maker: row.maker,
            hash: row.hash,
        };
        Self {
            principal: Principal::Key(holder),
            workspace: row.workspace,
            expires_at: row.expires_at,
            is_ticket: false,
            permissions,
        }
    }

    pub(super) fn from_person(verified: VerifiedPerson) -> Self {
        Self {
            principal: Principal::Person(verified.person),
            workspace: verified.workspace,
            expires_at: Some(verified.expires_at),
            is_ticket: false,
            permissions: verified.permissions,
        }
    }

    pub(crate) fn may(&self, permission: Permission) -> bool {
        self.permissions.iter().any(|held| held.implies(permission))
    }

    pub(super) fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// An id of the key or the person, under which requests and streams are counted.
    pub(crate) fn number(&self) -> Uuid {
        match &self.principal {
            Principal::Key(holder) => holder.id,
            Principal::Person(person) => person.number(),
        }
    }

    /// All permissions as they are stored.
    pub(crate) fn permission_words(&self) -> Vec<String> {
        self.permissions.iter().map(ToString::to_string).collect()
    }

    /// Requests per second, if the caller has its own limit.
    pub(super) fn rate_limit(&self) -> Option<u32> {
        match &self.principal {
            Principal::Key(holder) => holder.rate_limit,
            Principal::Person(_) => None,
        }
    }

    /// The caller as the journal and the definitions of state machines name them: a person by their id at the issuer.
    /// The kind comes from the credential and never from the id.
    ///
    /// A key of a one-time link is the key that made the link. Every holder of a key can make links: if each of them
    /// were another actor, one holder could approve their own run, and reach a quorum alone.
    pub(crate) fn actor(&self) -> Actor {
        match &self.principal {
            Principal::Key(holder) => Actor::key(holder.actor_id().to_string()),
            Principal::Person(person) => Actor::person(person.id.clone()),
        }
    }

    /// The caller as the audit and the log name them: a person by the issuer and their id.
    pub(crate) fn audit_actor(&self) -> Actor {
        match &self.principal {
            Principal::Key(holder) => Actor::key(holder.id.to_string()),
            Principal::Person(person) => Actor::person(person.full_id()),
        }
    }

    /// The caller as the publisher of a workflow, with all permissions that they have.
    pub(crate) fn publisher(&self) -> Publisher {
        let name = match &self.principal {
            Principal::Key(holder) => Some(holder.name.to_string()),
            Principal::Person(person) => person.name.clone(),
        };
        let permissions = Permission::ALL.iter().filter(|permission| self.may(**permission));
        Publisher::new(self.audit_actor(), name, permissions.map(|permission| permission.as_str()))
    }

    /// Adds the name of the key or the person to the details of an audit row.
    pub(crate) fn describe(&self, details: &mut Value) {
        match &self.principal {
            Principal::Key(holder) => details["keyName"] = json!(&*holder.name),
            Principal::Person(person) => {
                if let Some(name) = &person.name {
                    details["personName"] = json!(audit::shorten(name));
                }
            }
        }
    }

    /// The kind of the caller's credential, for messages: `key` or `token`.
    pub(crate) fn credential(&self) -> &'static str {
        match self.principal {
            Principal::Key(_) => "key",
            Principal::Person(_) => "token",
        }
    }
}

/// Handlers of guarded routes extract the caller, which the guard has inserted.
impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(parts.extensions.get::<Self>().expect("a guarded route has a caller").clone())
    }
}
