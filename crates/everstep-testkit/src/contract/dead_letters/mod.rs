//! Promises of [`everstep_store::DeadLetterStore`].

pub mod changes;
pub mod reads;
pub mod takes;
pub mod writes;
