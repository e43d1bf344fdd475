//! Topics.
//!
//! * `store`: the port's implementation; verbs that are one statement are there.
//! * `publish`: events as the arrays of a statement. `fan_out`: slices. `waits`: the waits that an event resolves.
//! * `subscriptions`, `triggers`: subscriptions of callers, and those that workflows declare.

mod fan_out;
mod publish;
mod rows;
mod store;
mod subscriptions;
mod triggers;
mod waits;

pub(super) use triggers::replace_triggers;
