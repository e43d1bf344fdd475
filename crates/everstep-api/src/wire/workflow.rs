//! Workflows as clients see them.

use everstep_core::payload::Payload;
use everstep_store::WorkflowRow;
use schemars::JsonSchema;
use serde::Serialize;

use crate::wire::{Object, Time};

/// One version of a workflow.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Workflow {
    name: String,
    version: u32,
    style: String,
    /// As it was understood: older names of fields are replaced by ours.
    #[schemars(with = "Object")]
    definition: Payload,
    digest: String,
    retention_days: u32,
    created_at: Time,
}

impl Workflow {
    pub(crate) fn of(row: WorkflowRow) -> Self {
        Self {
            name: row.name,
            version: row.version,
            style: row.style,
            definition: row.definition,
            digest: row.digest,
            retention_days: row.retention_days,
            created_at: Time::of(row.created_at),
        }
    }
}
