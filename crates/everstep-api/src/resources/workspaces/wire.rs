//! Workspaces as clients see them.

use everstep_store::WorkspaceRow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::http::schema::Id;
use crate::http::time::Time;
use crate::resources::keys::wire::Key;

/// A workspace: what is in one is not there for the keys of another.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Workspace {
    #[schemars(with = "Id")]
    id: Uuid,
    name: String,
    options: WorkspaceOptions,
    created_at: Time,
}

impl Workspace {
    pub(crate) fn from_row(row: WorkspaceRow) -> Self {
        Self {
            id: row.id.uuid(),
            name: row.name,
            options: WorkspaceOptions { fetch: row.options.value()["fetch"] == true },
            created_at: Time::from_timestamp(row.created_at),
        }
    }
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct WorkspaceOptions {
    /// Whether javascript nodes may use `fetch`.
    pub(crate) fetch: bool,
}

/// A page of workspaces, by name.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Workspaces {
    pub(crate) workspaces: Vec<Workspace>,
    /// What to ask the next page with; null on the last one.
    pub(crate) next_cursor: Option<String>,
}

/// Options that are to be set; those that are not named stay as they are.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangedOptions {
    /// Whether javascript nodes may use `fetch`.
    pub(crate) fetch: Option<bool>,
}

/// `POST /v1/workspaces`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CreateWorkspaceRequest")]
pub(crate) struct NewWorkspace {
    #[schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"))]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) options: ChangedOptions,
}

/// `PATCH /v1/workspaces/{name}`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangedWorkspace {
    pub(crate) options: ChangedOptions,
}

/// A workspace that was made, with an admin's key.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MadeWorkspace {
    pub(crate) workspace: Workspace,
    pub(crate) key: Key,
    /// The key itself, `es_…`, shown only now.
    pub(crate) secret: String,
}
