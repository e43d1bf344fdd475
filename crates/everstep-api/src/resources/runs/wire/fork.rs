//! Forks.

use everstep_core::ids::{RunId, StepKey};
use everstep_core::whole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Run;
use crate::http::schema::Id;

/// `POST /v1/runs/{id}/fork`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Fork {
    /// The last entry to copy; without it, the last entry before the end of the run.
    #[schemars(range(min = 1))]
    #[serde(default, deserialize_with = "whole::optional")]
    pub(crate) at: Option<u64>,
}

/// A run that continues from another.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Forked {
    pub(crate) run: Run,
    /// False if a fork with that idempotency key existed before.
    pub(crate) created: bool,
    /// The last entry that both runs share: the end of the item with the requested entry.
    pub(crate) forked_at: u64,
    pub(crate) not_undone: NotUndone,
}

/// The external effects of the original, which no fork undoes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NotUndone {
    /// Runs that the original has started, at most 1,000. The fork starts its own.
    pub(crate) children: Vec<StartedChild>,
    /// Steps that the original has begun and that the fork performs again, or may perform again; at most 1,000.
    #[schemars(with = "Vec<String>")]
    pub(crate) steps: Vec<StepKey>,
    /// Those of the steps that write records or links; at most 1,000. The writes of the original remain, and the fork
    /// writes again.
    #[schemars(with = "Vec<String>")]
    pub(crate) writes: Vec<StepKey>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StartedChild {
    #[schemars(with = "String")]
    pub(crate) step: StepKey,
    #[schemars(with = "Id")]
    pub(crate) run: RunId,
}
