//! Controls of many runs.

use std::collections::BTreeMap;

use everstep_core::ids::RunId;
use everstep_core::whole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Statuses;
use crate::http::schema::{Id, MomentOrDay};

/// `POST /v1/runs/bulk`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Bulk {
    pub(crate) action: Action,
    #[serde(default)]
    pub(crate) filter: Filter,
    /// Required for an empty filter.
    #[serde(default)]
    pub(crate) all: bool,
    /// Only counts the selected runs.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// The maximum number of runs; 1,000 by default.
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(default, deserialize_with = "whole::optional")]
    pub(crate) limit: Option<u64>,
    /// `nextCursor` of the previous call, unchanged.
    pub(crate) cursor: Option<String>,
    /// The reason, for `cancel`.
    pub(crate) reason: Option<String>,
}

/// The control for every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Action {
    Cancel,
    Pause,
    Resume,
    Retry,
}

/// The selection of runs, with the fields of the list of runs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Filter {
    pub(crate) workflow: Option<String>,
    #[serde(default, deserialize_with = "whole::optional")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub(crate) version: Option<u32>,
    /// The state of a machine. Ended runs are included only if `status` names a status of ended runs.
    pub(crate) state: Option<String>,
    /// One status, or several.
    #[schemars(with = "Option<Statuses>")]
    pub(crate) status: Option<OneOrMany>,
    #[schemars(with = "Option<MomentOrDay>")]
    pub(crate) since: Option<String>,
    #[schemars(with = "Option<MomentOrDay>")]
    pub(crate) until: Option<String>,
    #[schemars(with = "Option<Id>")]
    pub(crate) parent: Option<String>,
    /// Forks of this run.
    #[schemars(with = "Option<Id>")]
    pub(crate) origin: Option<String>,
    /// The idempotency key.
    #[schemars(length(min = 1, max = 255))]
    pub(crate) key: Option<String>,
    /// The code with which runs failed, or are paused.
    pub(crate) error_code: Option<String>,
    /// Runs that a trigger has started: `event:` and the id of an event.
    #[schemars(length(min = 1, max = 264))]
    pub(crate) trigger: Option<String>,
    /// The beginning of ids, at least eight letters; or the name of a workflow.
    #[schemars(length(min = 1, max = 128))]
    pub(crate) text: Option<String>,
    /// Values at paths of the input: `{"order.id": 7}`.
    #[serde(default)]
    pub(crate) input: BTreeMap<String, Value>,
    /// Values of tags.
    #[serde(default)]
    pub(crate) tags: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// The result for many runs.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Gathered {
    /// The runs that the filter selects, up to the limit.
    pub(crate) matched: u64,
    pub(crate) accepted: u64,
    /// Runs that did not change: they already had the status, or the control was applied before.
    pub(crate) ignored: u64,
    /// Runs that rejected the control, or could not be reached.
    pub(crate) refused: u64,
    /// The first rejections, at most 20.
    pub(crate) errors: Vec<Refusal>,
    /// The cursor for the rest; null if there is none.
    pub(crate) next_cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Refusal {
    #[schemars(with = "Id")]
    pub(crate) run: RunId,
    pub(crate) code: String,
    pub(crate) message: String,
}
