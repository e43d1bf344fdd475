//! Promises of [`everstep_store::FileStore`].

pub mod bindings;
pub mod sweeps;
pub mod uploads;
