//! The journal of a run: its events, how they are stored, and the laws that every journal obeys.

pub mod codec;
mod delivery;
mod entry;
mod event;
pub mod law;
mod machine_law;
mod transition;

pub use delivery::Delivery;
pub use entry::Entry;
pub(crate) use event::DELIVERIES_FORMAT;
pub use event::{Cause, Dispatch, Event, FORMAT, Kind, Outcome, Resolution, TimerPurpose};
pub use transition::{Assigned, AutoAction, Ballot, DecidedEnd, TransitionApplied, VoteCast};
