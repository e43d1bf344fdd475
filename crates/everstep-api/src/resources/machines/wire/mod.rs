//! State machines in the API.

mod actions;
mod actor;
mod evaluation;
mod history;
mod transition;

pub(crate) use actions::{ActionReason, Actions, AvailableAction, ShownFields};
pub(crate) use actor::{Actor, Votes};
pub(crate) use evaluation::{DefinitionDryRun, DryRun, EvaluateDefinitionRequest, EvaluateRunRequest, ImaginedPerson};
pub(crate) use history::{History, HistoryEntry};
pub(crate) use transition::{AssignRequest, Assignment, Transition, TransitionRequest};
