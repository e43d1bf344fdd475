//! Topics: rows, and the parts of their verbs that both databases share.

mod columns;
mod rows;
mod triggers;
mod waits;

pub(crate) use columns::{
    EventColumns, SubscriptionColumns, pack_json, payload, read_results, results_json, subscription_filter, target_json,
};
pub use rows::{
    EventPage, EventQuery, EventResult, EventRow, EventSlice, FanOutPosition, ListedEvent, MatchCounts, MatchingWait,
    PublishOutcome, ResultPage, SliceOutcome, StartRow, SubscriptionOutcome, SubscriptionQuery, UnmatchedEvents,
    WaitPage, WaitPosition,
};
pub(crate) use triggers::trigger_changes;
pub(crate) use waits::{Candidate, SHAPES_MAX, WaitScan, wanted_hashes};
