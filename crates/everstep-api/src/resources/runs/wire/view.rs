//! Views: a run with selected fields of its output.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Run;
use crate::http::schema::Object;

/// `POST /v1/runs/{id}/view`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct View {
    pub(crate) widget_config: Option<WidgetConfig>,
}

/// The fields of a run's output that a view shows.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WidgetConfig {
    /// Paths into the output: `total`, `order.id`, `items.0.name`.
    #[schemars(length(max = 100))]
    pub(crate) fields: Vec<String>,
}

/// A run with the fields of a view.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Viewed {
    #[serde(flatten)]
    pub(crate) run: Run,
    /// The requested fields of the output by their paths; only when the run has completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    pub(crate) data: Option<Value>,
}
