//! Decides what follows. Plain functions from values to values: no I/O, no clock, no randomness, no async.
//!
//! [`decide::decide`] takes a [`workflow::Workflow`], a [`state::State`] and an [`input::Input`] and returns the
//! journal entries that follow. Everything else in Everstep persists them, performs them or shows them.

pub mod child;
pub mod code;
pub mod codec;
pub mod contains;
pub mod decide;
pub mod evaluate;
pub mod event;
pub mod failure;
pub mod graph;
pub mod ids;
pub mod input;
pub mod key;
pub mod kinds;
pub mod law;
pub mod limits;
pub mod messages;
pub mod payload;
pub mod planted;
pub mod retry;
pub mod state;
pub mod status;
pub mod strict;
pub mod task;
pub mod time;
pub mod turn;
pub mod workflow;
