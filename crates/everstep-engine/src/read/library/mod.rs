//! The versions of workflows.
//!
//! * `versions`: the [`Library`], which compiles versions once, and finds them.
//! * `definitions` checks definitions and saves them as versions; `names` checks the names of workflows.
//! * `registrations` saves the versions of code workflows, which workers register.
//! * `starts` finds the version with which a run is started.

mod definitions;
mod names;
mod registrations;
mod starts;
mod versions;

pub use definitions::{CheckedDefinition, DefinitionOutcome, SaveError, SaveOptions};
pub use versions::{Library, Version};
