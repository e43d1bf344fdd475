//! Topics: events that a publisher publishes once, and the runs that they start and wake.
//!
//! An *event* is an immutable fact with a topic, data, a source, an id and a time. A *topic* is a name; it need not be
//! created. A *subscription* is a pattern of topics with a target; a *declared trigger* is a subscription that the
//! definition of a workflow contains. A *trigger* is the reason why a run was started, as the run keeps it.
//!
//! * `topic`, `pattern`: names of topics, patterns of names, and the heads by which subscriptions are found.
//! * `event`, `publication`, `published`: a published event, the reference that a step keeps, the events that a run
//!   publishes, and those that it has published.
//! * `subscription`, `filter`, `view`: subscriptions, their filters, and the names that their expressions read.
//! * `failed_start`: a workflow that an event could not start.
//! * `declared`, `schema`: the triggers of a definition. `trigger`: the trigger of a run.
//! * `shape`: how waits are found by an event without reading all of them.

mod declared;
mod event;
mod failed_start;
mod filter;
mod pattern;
mod publication;
mod published;
mod schema;
mod shape;
mod subscription;
mod topic;
mod trigger;
mod view;

pub(crate) use declared::read_triggers;
pub use declared::{DeclaredTrigger, TRIGGERS_MAX};
pub use event::{EventRef, TopicEvent};
pub use failed_start::FailedStart;
pub use filter::Filter;
pub use pattern::Pattern;
pub(crate) use publication::publish;
pub use publication::{EVENT_DEPTH_MAX, Publication, published_after};
pub(crate) use published::PublishedEvents;
pub use schema::trigger_schema;
pub use shape::{WaitShape, match_hash};
pub use subscription::{Origin, Subscription, Target};
pub use topic::{TOPIC_BYTES_MAX, check_topic, heads, is_reserved};
pub use trigger::{Trigger, TriggerKind};
pub use view::EventView;
