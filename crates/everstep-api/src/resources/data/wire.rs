//! Data sources and saved queries as clients see them.

use everstep_core::whole;
use everstep_handlers::sources::{Field, Query, Source};
use everstep_vault::SavedResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::http::schema::Object;
use crate::http::time::Time;

/// A data source under its name. What it was saved as is in `source`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DataSource {
    name: String,
    /// As it was saved, with what it left out.
    #[schemars(with = "Object")]
    source: Source,
    created_at: Time,
    updated_at: Time,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DataSources {
    pub(crate) data_sources: Vec<DataSource>,
    pub(crate) next_cursor: Option<String>,
}

/// A saved query under its name. What it was saved as is in `query`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SavedQuery {
    id: String,
    /// As it was saved, with what it left out.
    #[schemars(with = "Object")]
    query: Query,
    created_at: Time,
    updated_at: Time,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SavedQueries {
    pub(crate) queries: Vec<SavedQuery>,
    pub(crate) next_cursor: Option<String>,
}

/// With what a query is tried.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct QueryRun {
    /// The arguments, by name.
    pub(crate) args: Option<Map<String, Value>>,
    /// How many rows at most; others are cut off.
    #[serde(deserialize_with = "whole::optional")]
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) limit: Option<u32>,
}

/// What a source has answered. It is sent as the text that was gathered; this says what that looks like.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueryAnswer {
    rows: Vec<Value>,
    /// How many rows there are; of a statement that returns none, how many it changed.
    row_count: u64,
    fields: Vec<Field>,
    /// Whether there were more rows than the limits let through.
    truncated: bool,
}

impl DataSource {
    pub(crate) fn from_saved(saved: SavedResource<Source>) -> Self {
        let SavedResource { name, body, created_at, updated_at } = saved;
        Self {
            name,
            source: body,
            created_at: Time::from_timestamp(created_at),
            updated_at: Time::from_timestamp(updated_at),
        }
    }
}

impl SavedQuery {
    pub(crate) fn from_saved(saved: SavedResource<Query>) -> Self {
        let SavedResource { name, body, created_at, updated_at } = saved;
        Self {
            id: name,
            query: body,
            created_at: Time::from_timestamp(created_at),
            updated_at: Time::from_timestamp(updated_at),
        }
    }
}
