//! Figures in the API.

use everstep_core::time::Timestamp;
use everstep_store::RunStats;
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::time::Time;

/// The figures of successive periods, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Stats {
    pub(crate) buckets: Vec<StatsBucket>,
}

/// The figures of one period.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatsBucket {
    /// The beginning of the period.
    at: Time,
    started: i64,
    completed: i64,
    failed: i64,
    cancelled: i64,
    /// The median duration of the runs that completed or failed in the period; null if there are none.
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
}

impl StatsBucket {
    pub(crate) fn new(at: Timestamp, stats: &RunStats) -> Self {
        Self {
            at: Time::from_timestamp(at),
            started: stats.started,
            completed: stats.completed,
            failed: stats.failed,
            cancelled: stats.cancelled,
            p50_ms: stats.percentile(0.5),
            p95_ms: stats.percentile(0.95),
        }
    }
}
