//! Keys as clients see them.

use everstep_store::KeyRow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::auth::{Permission, Role};
use crate::http::schema::Id;
use crate::http::schema::Moment;
use crate::http::time::Time;

/// A key. The key itself is shown when it is made, and never again.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Key {
    #[schemars(with = "Id")]
    id: Uuid,
    name: String,
    /// None where the key has permissions of its own.
    role: Option<String>,
    permissions: Vec<String>,
    /// Requests per second, 0 for any number; none where the server's usual limit holds.
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

/// A page of keys, oldest first.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Keys {
    pub(crate) keys: Vec<Key>,
    /// What to ask the next page with; null on the last one.
    pub(crate) next_cursor: Option<String>,
}

/// `POST /v1/keys`: a role, or permissions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewKey {
    /// What the key is for, so that people know it later.
    pub(crate) name: String,
    pub(crate) role: Option<Role>,
    pub(crate) permissions: Option<Vec<Permission>>,
    /// It works no more from then on.
    #[schemars(with = "Option<Moment>")]
    pub(crate) expires_at: Option<String>,
    /// Requests per second, on each node; 0 for any number.
    #[schemars(range(max = 1_000_000))]
    pub(crate) rate_limit: Option<u32>,
}

/// A key that was made.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MadeKey {
    pub(crate) key: Key,
    /// The key itself, `es_…`, shown only now; null where it was made before, under the same `Idempotency-Key`.
    pub(crate) secret: Option<String>,
}

/// Who asks.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Me {
    pub(crate) workspace: MyWorkspace,
    pub(crate) key: MyKey,
    /// All that the key may do.
    pub(crate) permissions: Vec<Permission>,
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
