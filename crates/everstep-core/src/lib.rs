//! Decides what follows. Plain functions from values to values: no I/O, no clock, no randomness, no async.

pub mod codec;
pub mod evaluate;
pub mod event;
pub mod failure;
pub mod ids;
pub mod kinds;
pub mod limits;
pub mod payload;
pub mod planted;
pub mod status;
pub mod time;
