//! Promises of [`everstep_store::ResourceStore`].

pub mod bodies;
