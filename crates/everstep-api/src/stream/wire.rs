//! The data of server-sent events.

use everstep_core::payload::Payload;
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::schema::Json;
use crate::resources::runs::wire::{Run, Status};

/// A run and its context, as they are when a stream begins.
#[derive(Serialize, JsonSchema)]
pub(super) struct SnapshotEvent {
    pub(super) run: Run,
    #[schemars(with = "Json")]
    pub(super) context: Payload,
}

/// The status of a run after an entry.
#[derive(Serialize, JsonSchema)]
pub(super) struct StatusEvent {
    #[schemars(with = "Status")]
    pub(super) status: &'static str,
    pub(super) seq: u64,
}

/// The end of a stream.
#[derive(Serialize, JsonSchema)]
pub(super) struct EndEvent {
    /// The last status of the run; null if the run has not ended.
    #[schemars(with = "Option<Status>")]
    pub(super) status: Option<&'static str>,
}
