//! The phase of a run, with the data that belongs to it.

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::payload::Payload;
use crate::status::Status;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Phase {
    /// Before its first entry.
    Pending,
    /// It runs or waits, depending on its open steps.
    Live,
    Paused {
        at: Timestamp,
        reason: Option<Failure>,
    },
    Completed {
        output: Payload,
    },
    Failed {
        failure: Failure,
    },
    Cancelled {
        /// The failure that had paused the run before it was cancelled.
        paused_by: Option<Failure>,
    },
}

impl Phase {
    pub(crate) fn is_live(&self) -> bool {
        matches!(self, Self::Live)
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self, Self::Completed { .. } | Self::Failed { .. } | Self::Cancelled { .. })
    }

    /// The status of a run in this phase. The status of a live run is running here; only its open steps show
    /// whether it waits.
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Pending => Status::Pending,
            Self::Live => Status::Running,
            Self::Paused { .. } => Status::Paused,
            Self::Completed { .. } => Status::Completed,
            Self::Failed { .. } => Status::Failed,
            Self::Cancelled { .. } => Status::Cancelled,
        }
    }

    pub(crate) fn output(&self) -> Option<&Payload> {
        match self {
            Self::Completed { output } => Some(output),
            Self::Pending | Self::Live | Self::Paused { .. } | Self::Failed { .. } | Self::Cancelled { .. } => None,
        }
    }

    /// Why the run failed, is paused, or was paused when it was cancelled.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed { failure } => Some(failure),
            Self::Paused { reason, .. } => reason.as_ref(),
            Self::Cancelled { paused_by } => paused_by.as_ref(),
            Self::Pending | Self::Live | Self::Completed { .. } => None,
        }
    }

    pub(crate) fn paused_at(&self) -> Option<Timestamp> {
        match self {
            Self::Paused { at, .. } => Some(*at),
            Self::Pending | Self::Live | Self::Completed { .. } | Self::Failed { .. } | Self::Cancelled { .. } => None,
        }
    }
}
