//! The journal of a run: its events, how they are stored, and the laws that every journal obeys.

pub mod codec;
mod entry;
mod event;
pub mod law;
mod machine_law;
mod transition;

pub use entry::Entry;
pub use event::{Cause, Dispatch, Event, FORMAT, Kind, Outcome, Resolution, TimerPurpose};
pub use transition::{Assigned, AutoAction, Ballot, TransitionApplied, VoteCast};
