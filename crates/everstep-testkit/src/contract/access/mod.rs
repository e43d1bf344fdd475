//! Promises of [`everstep_store::AccessStore`].

pub mod audit;
pub mod keys;
pub mod settings;
pub mod workspaces;
