//! Promises of [`everstep_store::WorkflowStore`].

pub mod deletions;
pub mod registrations;
pub mod versions;
