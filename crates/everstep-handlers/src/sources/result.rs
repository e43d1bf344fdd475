//! The result of a query.

use everstep_core::payload::Payload;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The rows of a query, and their columns.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryResult {
    /// The rows as JSON: an array.
    pub(super) rows: String,
    /// The number of rows; of a statement that returns none, the number of changed rows.
    pub row_count: u64,
    pub fields: Vec<Field>,
    /// Whether there were more rows than the limits allow.
    pub truncated: bool,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    pub name: String,
    /// Its type in the terms of the source.
    #[serde(rename = "type")]
    pub kind: String,
}

impl QueryResult {
    /// `{rows, rowCount, fields, truncated}`.
    pub fn payload(&self) -> Payload {
        let fields = json!(self.fields);
        let text = format!(
            r#"{{"rows":{},"rowCount":{},"fields":{fields},"truncated":{}}}"#,
            self.rows, self.row_count, self.truncated
        );
        Payload::from_json(text).expect("rows are written as JSON")
    }
}

/// Whether a source can be reached and accepts the credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceTest {
    pub ok: bool,
    /// A message for people: the result and the remedy.
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    pub latency_ms: u64,
}
