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

/// Which parts of a run's output a view shows.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WidgetConfig {
    /// Paths into the output: `total`, `order.id`, `items.0.name`.
    #[schemars(length(max = 100))]
    pub(crate) fields: Vec<String>,
}

/// A run with what a view asked for.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Viewed {
    #[serde(flatten)]
    pub(crate) run: Run,
    /// The wanted fields of the output by their paths; only once the run has completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    pub(crate) data: Option<Value>,
}
