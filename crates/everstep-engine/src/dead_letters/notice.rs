//! The notice to operations that work has failed permanently.

use async_trait::async_trait;
use everstep_core::dead_letter::DeadLetter;
use everstep_core::time::Timestamp;
use serde::Serialize;

/// The name of the event in a notice.
const EVENT: &str = "workflow_event_failed";

/// Sends notices to the operators of the server.
#[async_trait]
pub trait Notices: Send + Sync {
    /// Sends a notice once. The error is for the log.
    async fn send(&self, notice: &Notice) -> Result<(), String>;
}

/// One dead letter, as operators are notified of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    pub event: &'static str,
    /// The id of the dead letter.
    pub job_id: String,
    pub workflow_code: Option<String>,
    pub instance_id: Option<String>,
    pub error: String,
    /// When the last attempt failed.
    #[serde(serialize_with = "write_time")]
    pub timestamp: Timestamp,
}

impl Notice {
    pub(super) fn new(letter: &DeadLetter) -> Self {
        // A letter that was requeued may have a later attempt that succeeded.
        let failed = letter.attempts.iter().rev().find(|attempt| !attempt.is_delivered());
        let error = failed.map_or_else(String::new, |last| format!("{}: {}", last.code, last.message));
        Self {
            event: EVENT,
            job_id: letter.id.to_string(),
            workflow_code: letter.workflow.clone(),
            instance_id: letter.run.map(|run| run.to_string()),
            error,
            timestamp: letter.created_at,
        }
    }
}

fn write_time<S: serde::Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{time:.6}"))
}
