//! Workflows in the API.

mod definition;
mod workflow;

pub(crate) use definition::Definition;
pub(crate) use workflow::{
    Activate, Clone, Exported, Fault, NewWorkflow, Portable, Validation, Version, Versions, Workflow, WorkflowSummary,
};
