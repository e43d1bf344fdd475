//! Data sources and saved queries in the API.

use everstep_core::whole;
use everstep_handlers::sources::{Field, Query, Source};
use everstep_vault::SavedResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::http::schema::Object;
use crate::http::time::Time;

/// A data source under its name. `source` is its definition.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DataSource {
    name: String,
    /// The definition, with the defaults of missing fields.
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

/// A saved query under its name. `query` is its definition.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SavedQuery {
    id: String,
    /// The definition, with the defaults of missing fields.
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

/// The parameters of running a saved query.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct QueryRun {
    /// The arguments, by name.
    pub(crate) args: Option<Map<String, Value>>,
    /// The maximum number of rows; others are cut off.
    #[serde(deserialize_with = "whole::optional")]
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) limit: Option<u32>,
}

/// The result of a query. It is sent as the collected text; this type describes it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueryAnswer {
    rows: Vec<Value>,
    /// The number of rows; of a statement that returns none, the number of changed rows.
    row_count: u64,
    fields: Vec<Field>,
    /// Whether there were more rows than the limits allow.
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
