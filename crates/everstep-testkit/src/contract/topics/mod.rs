//! Promises of [`everstep_store::TopicStore`].

pub mod events;
pub mod fan_out;
pub mod subscriptions;
pub mod triggers;
pub mod waits;
