//! Promises of [`everstep_store::RecordStore`].

pub mod changes;
pub mod links;
pub mod ops;
pub mod pages;
pub mod races;
