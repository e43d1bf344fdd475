//! Why a worker loses a turn that its function has not ended.

use everstep_core::failure::Failure;
use everstep_core::journal::{Entry, Event};
use everstep_core::run::State;
use everstep_core::status::Status;

/// The reason why a turn is revoked, or why its run was ended without the worker. It is for the log of the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// The run waits, and nothing is due soon.
    Parked,
    /// The run is paused, for this reason if one is known.
    Paused(Option<String>),
    /// The run continues in another turn, or another node owns it.
    Moved,
    /// A client or the parent run has cancelled it, for this reason if one was given.
    Cancelled(Option<String>),
    /// The run has failed by a decision of the server.
    Failed(String),
    /// The run has ended; it is not known here how.
    Ended,
}

impl TurnEnd {
    /// Why a run that is paused or parked leaves its worker.
    pub(super) fn of_resting(state: &State) -> Self {
        match state.is_paused() {
            true => Self::Paused(state.failure().map(Failure::to_string)),
            false => Self::Parked,
        }
    }

    /// How a run has ended. `entries` are those of its last item.
    pub(crate) fn of_ended(state: &State, entries: &[Entry]) -> Self {
        let cancelled_by = |entry: &Entry| {
            let Event::RunCancelled { reason } = &entry.event else { return None };
            reason.clone()
        };
        match state.status() {
            Status::Cancelled => Self::Cancelled(entries.iter().rev().find_map(cancelled_by)),
            status => Self::of_status(status, state.failure()),
        }
    }

    /// How a run has ended, by its row.
    pub(super) fn of_status(status: Status, failure: Option<&Failure>) -> Self {
        match (status, failure) {
            (Status::Cancelled, _) => Self::Cancelled(None),
            (Status::Failed, Some(failure)) => Self::Failed(failure.to_string()),
            _ => Self::Ended,
        }
    }

    /// The word for it in the worker protocol.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Parked => "parked",
            Self::Paused(_) => "paused",
            Self::Moved => "moved",
            Self::Cancelled(_) => "cancelled",
            Self::Failed(_) => "failed",
            Self::Ended => "ended",
        }
    }

    /// More about it, for people.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Paused(detail) | Self::Cancelled(detail) => detail.as_deref(),
            Self::Failed(detail) => Some(detail),
            Self::Parked | Self::Moved | Self::Ended => None,
        }
    }
}
