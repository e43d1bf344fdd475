//! Workspaces in the API.

use std::collections::BTreeMap;

use everstep_core::strict::StrictValue;
use everstep_store::WorkspaceRow;
use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::http::schema::Id;
use crate::http::time::Time;
use crate::resources::keys::wire::Key;

/// A workspace: an API key gives access to one workspace only.
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
            options: WorkspaceOptions::from_json(row.options.value()),
            created_at: Time::from_timestamp(row.created_at),
        }
    }
}

#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkspaceOptions {
    /// Whether javascript nodes may use `fetch`.
    pub(crate) fetch: bool,
    /// The role map of the workspace: from roles of people to permissions. It has precedence over that of the server.
    pub(crate) roles: BTreeMap<String, String>,
    /// The address that receives the mails of the workspace as signed webhooks; without it, the mail server receives them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) notify_url: Option<String>,
    /// The name of the secret that signs these webhooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) notify_secret: Option<String>,
}

impl WorkspaceOptions {
    fn from_json(options: &Value) -> Self {
        let roles = options["roles"].as_object().into_iter().flatten();
        let roles = roles.filter_map(|(role, permission)| Some((role.clone(), permission.as_str()?.to_owned())));
        let text = |name: &str| options[name].as_str().map(str::to_owned);
        Self {
            fetch: options["fetch"] == true,
            roles: roles.collect(),
            notify_url: text("notifyUrl"),
            notify_secret: text("notifySecret"),
        }
    }
}

/// A page of workspaces, by name.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Workspaces {
    pub(crate) workspaces: Vec<Workspace>,
    /// The cursor of the next page; null on the last one.
    pub(crate) next_cursor: Option<String>,
}

/// Options to set; missing ones do not change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ChangedOptions {
    /// Whether javascript nodes may use `fetch`.
    pub(crate) fetch: Option<bool>,
    /// The role map: from roles of people to permissions. It replaces the whole map of the workspace; for roles that it
    /// does not contain, the role map of the server applies.
    pub(crate) roles: Option<BTreeMap<String, String>>,
    /// The address that receives the mails of the workspace as signed webhooks. Null removes it, with `notifySecret`.
    #[serde(default, deserialize_with = "given_text")]
    #[schemars(with = "Option<String>", length(max = 2048))]
    pub(crate) notify_url: Option<Option<String>>,
    /// The name of the secret of the workspace that signs these webhooks; a `notifyUrl` needs it.
    #[serde(default, deserialize_with = "given_text")]
    #[schemars(with = "Option<String>", regex(pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$"))]
    pub(crate) notify_secret: Option<Option<String>>,
}

/// A value that is present: null is a value.
fn given_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// `POST /v1/workspaces`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CreateWorkspaceRequest")]
pub(crate) struct NewWorkspace {
    #[schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"))]
    pub(crate) name: String,
    #[serde(default, deserialize_with = "read_options")]
    pub(crate) options: ChangedOptions,
}

/// `PATCH /v1/workspaces/{name}`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangedWorkspace {
    #[serde(deserialize_with = "read_options")]
    pub(crate) options: ChangedOptions,
}

/// Reads options from an object. The derived reader also accepts an array with a value for each field.
fn read_options<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ChangedOptions, D::Error> {
    let StrictValue(value) = StrictValue::deserialize(deserializer)?;
    if !value.is_object() {
        return Err(D::Error::custom("options: expected an object"));
    }
    ChangedOptions::deserialize(value).map_err(D::Error::custom)
}

/// A created workspace, with an admin API key.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MadeWorkspace {
    pub(crate) workspace: Workspace,
    pub(crate) key: Key,
    /// The API key itself, `es_…`, shown only once.
    pub(crate) secret: String,
}
