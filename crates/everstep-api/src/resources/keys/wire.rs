//! API keys in the API.

use std::borrow::Cow;

use everstep_core::whole;
use everstep_store::KeyRow;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

use crate::auth::identity::Person;
use crate::auth::{Permission, Role};
use crate::http::schema::{Id, Moment};
use crate::http::time::Time;

/// An API key. The key itself is shown only when it is created.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Key {
    #[schemars(with = "Id")]
    id: Uuid,
    name: String,
    /// None if the key has a list of permissions.
    role: Option<String>,
    permissions: Vec<String>,
    /// Requests per second, 0 for no limit; none if the server's default limit applies.
    rate_limit: Option<u32>,
    created_at: Time,
    expires_at: Option<Time>,
    revoked_at: Option<Time>,
}

impl Key {
    pub(crate) fn from_row(row: KeyRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            role: row.role,
            permissions: row.permissions,
            rate_limit: row.rate_limit,
            created_at: Time::from_timestamp(row.created_at),
            expires_at: row.expires_at.map(Time::from_timestamp),
            revoked_at: row.revoked_at.map(Time::from_timestamp),
        }
    }
}

/// A page of API keys, oldest first.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Keys {
    pub(crate) keys: Vec<Key>,
    /// The cursor of the next page; null on the last one.
    pub(crate) next_cursor: Option<String>,
}

/// `POST /v1/keys`: a role, or permissions. [`KeyWithRole`] and [`KeyWithPermissions`] describe the two forms.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewKey {
    pub(crate) name: String,
    #[serde(default, deserialize_with = "present")]
    pub(crate) role: Option<Role>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) permissions: Option<Vec<Permission>>,
    pub(crate) expires_at: Option<String>,
    #[serde(default, deserialize_with = "whole::optional")]
    pub(crate) rate_limit: Option<u32>,
}

/// Reads a field that may be left out, and is not null.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl JsonSchema for NewKey {
    fn schema_name() -> Cow<'static, str> {
        "CreateKeyRequest".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let forms = [generator.subschema_for::<KeyWithRole>(), generator.subschema_for::<KeyWithPermissions>()];
        json_schema!({"oneOf": forms, "description": "A new API key: with a role, or with permissions of its own."})
    }
}

/// A new API key with the permissions of a role.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used: requests are read as `NewKey`")]
struct KeyWithRole {
    /// The purpose of the key, for people.
    #[schemars(length(min = 1, max = 128))]
    name: String,
    role: Role,
    /// The key is rejected after this time.
    #[schemars(with = "Option<Moment>")]
    expires_at: Option<String>,
    /// Requests per second, on each node; 0 for no limit.
    #[schemars(range(max = 1_000_000))]
    rate_limit: Option<u32>,
}

/// A new API key with permissions of its own.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used: requests are read as `NewKey`")]
struct KeyWithPermissions {
    /// The purpose of the key, for people.
    #[schemars(length(min = 1, max = 128))]
    name: String,
    #[schemars(length(min = 1))]
    permissions: Vec<Permission>,
    /// The key is rejected after this time.
    #[schemars(with = "Option<Moment>")]
    expires_at: Option<String>,
    /// Requests per second, on each node; 0 for no limit.
    #[schemars(range(max = 1_000_000))]
    rate_limit: Option<u32>,
}

/// A created key.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MadeKey {
    pub(crate) key: Key,
    /// The key itself, `es_…`, shown only once; null if it was created before, under the same `Idempotency-Key`.
    pub(crate) secret: Option<String>,
}

/// The caller.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Me {
    pub(crate) workspace: MyWorkspace,
    /// Null if the caller is a person.
    pub(crate) key: Option<MyKey>,
    /// Null if the caller is the holder of a key.
    pub(crate) person: Option<MyPerson>,
    /// All permissions of the key or the person.
    pub(crate) permissions: Vec<Permission>,
    /// The subsystems of this build, such as `graph` and `machine`. Later releases add names.
    pub(crate) features: &'static [&'static str],
    /// The bounds of the workspace, and how much of them is used.
    pub(crate) quotas: Vec<Quota>,
    pub(crate) server: ServerInfo,
}

/// A bound of the workspace. A request beyond it is rejected: with 409 `QUOTA_REACHED`, or 429 `TOO_MANY_STREAMS`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Quota {
    /// The bounded things: `workflows`, `keys`, or `streams` of the node that has answered. Later releases add names.
    pub(crate) name: &'static str,
    /// How many exist; the number may be five seconds old.
    pub(crate) used: u64,
    /// How many are allowed.
    pub(crate) max: u64,
    /// The setting of the server that raises the bound; null if there is none.
    pub(crate) setting: Option<&'static str>,
}

/// The server that has answered.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ServerInfo {
    /// Its release.
    pub(crate) version: &'static str,
    /// Its database: `sqlite` or `postgres`.
    pub(crate) store: &'static str,
    /// The number of nodes that use the database and renew their lease.
    pub(crate) nodes: usize,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct MyWorkspace {
    #[schemars(with = "Id")]
    pub(crate) id: Uuid,
    pub(crate) name: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MyKey {
    #[schemars(with = "Id")]
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) role: Option<String>,
    pub(crate) rate_limit: Option<u32>,
    pub(crate) expires_at: Option<Time>,
}

/// A person, as the identity provider describes them.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MyPerson {
    pub(crate) issuer: String,
    /// Unique among the people of the issuer.
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) email: Option<String>,
    pub(crate) roles: Vec<String>,
    /// When the token expires.
    pub(crate) expires_at: Option<Time>,
}

impl MyPerson {
    pub(crate) fn from_person(person: &Person, expires_at: Option<Time>) -> Self {
        let Person { issuer, id, name, email, roles, words: _ } = person.clone();
        Self { issuer, id, name, email, roles, expires_at }
    }
}
