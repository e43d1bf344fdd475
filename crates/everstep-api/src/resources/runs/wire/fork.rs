//! Forks, test runs, bulk controls and views, as clients ask for them and see them.

use std::collections::BTreeMap;

use everstep_core::ids::{RunId, StepKey};
use everstep_core::payload::Payload;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Run;
use crate::http::schema::{Id, Json, Object};

/// `POST /v1/runs/{id}/fork`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Fork {
    /// The last entry to take over; without it, the last one at which the run had not ended.
    #[schemars(range(min = 1))]
    pub(crate) at: Option<u64>,
}

/// A run that goes on from another.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Forked {
    pub(crate) run: Run,
    /// False when a fork with that key was there before.
    pub(crate) created: bool,
    /// The last entry that both have: the end of what was written at once with the one that was asked for.
    pub(crate) forked_at: u64,
    pub(crate) not_undone: NotUndone,
}

/// What the original has done to the world, and no fork undoes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NotUndone {
    /// Runs that the original has started, at most 1,000. The fork starts its own.
    pub(crate) children: Vec<StartedChild>,
    /// Steps that the original has begun and that the fork performs again, or may; at most 1,000.
    #[schemars(with = "Vec<String>")]
    pub(crate) steps: Vec<StepKey>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StartedChild {
    #[schemars(with = "String")]
    pub(crate) step: StepKey,
    #[schemars(with = "Id")]
    pub(crate) run: RunId,
}

/// `POST /v1/test-runs`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TestRun {
    /// A graph, as it would be saved.
    #[schemars(with = "Object")]
    pub(crate) definition: Payload,
    #[serde(default = "nothing")]
    #[schemars(with = "Json")]
    pub(crate) input: Payload,
}

fn nothing() -> Payload {
    Payload::from(json!({}))
}

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
