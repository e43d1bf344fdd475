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
    /// Needed for a filter that leaves nothing out.
    #[serde(default)]
    pub(crate) all: bool,
    /// Only counts the runs that would be asked.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// How many runs at most; 1,000 if it is left out.
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(default, deserialize_with = "whole::optional")]
    pub(crate) limit: Option<u64>,
    /// `nextCursor` of the call before, as it is.
    pub(crate) cursor: Option<String>,
    /// Why, for `cancel`.
    pub(crate) reason: Option<String>,
}

/// What is done to every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Action {
    Cancel,
    Pause,
    Resume,
    Retry,
}

/// Which runs, as the list of runs is asked.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Filter {
    pub(crate) workflow: Option<String>,
    #[serde(default, deserialize_with = "whole::optional")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub(crate) version: Option<u32>,
    /// One status, or several.
    #[schemars(with = "Option<Statuses>")]
    pub(crate) status: Option<OneOrMany>,
    #[schemars(with = "Option<MomentOrDay>")]
    pub(crate) since: Option<String>,
    #[schemars(with = "Option<MomentOrDay>")]
    pub(crate) until: Option<String>,
    #[schemars(with = "Option<Id>")]
    pub(crate) parent: Option<String>,
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

/// What became of many runs.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Gathered {
    /// Runs that the filter finds, up to the limit.
    pub(crate) matched: u64,
    pub(crate) accepted: u64,
    /// Runs for which it changed nothing: they were as wanted, or it was done before.
    pub(crate) ignored: u64,
    /// Runs that refused, or could not be asked.
    pub(crate) refused: u64,
    /// The first refusals, at most 20.
    pub(crate) errors: Vec<Refusal>,
    /// What to ask for the rest with; null when there is none.
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
