//! Decides which journal entries follow from an input. Plain functions from values to values: no I/O, no clock, no
//! randomness, no async.
//!
//! [`run::decide::decide`] receives a [`workflow::Workflow`], a [`run::State`] and a [`run::Input`] and returns the
//! journal entries that follow. The other crates of Everstep persist, perform or show them.

pub mod actor;
pub mod code;
pub mod contains;
pub mod dead_letter;
pub mod decode;
pub mod definition;
pub mod evaluate;
pub mod failure;
pub mod fair_share;
pub mod files;
pub mod graph;
pub mod ids;
pub mod journal;
pub mod kinds;
pub mod limits;
pub mod logic;
pub mod machine;
pub mod mail;
pub mod meter;
pub mod payload;
pub mod planted;
pub mod publisher;
pub mod records;
pub mod retry;
pub mod run;
pub mod schema;
pub mod search;
pub mod status;
pub mod story;
pub mod strict;
pub mod style;
pub mod time;
pub mod topics;
pub mod webhook;
pub mod whole;
pub mod workflow;
