//! Topics.
//!
//! * `store`: the port's implementation.
//! * `events`: publishing, and the verbs that read events. `fan_out`: slices. `waits`: the waits that an event resolves.
//! * `subscriptions`, `triggers`: subscriptions of callers, and those that workflows declare.

mod events;
mod fan_out;
mod rows;
mod store;
mod subscriptions;
mod triggers;
mod waits;

pub(super) use events::insert_event;
pub(super) use triggers::replace_triggers;
