//! The engine on a real database: runs, their children and forks, nodes, workers, machines, topics.
//!
//! One program: the suites share their support, and linking one for each of them takes longer than their tests.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up is to fail")]

mod children;
mod claims;
mod clock;
mod code;
mod code_topics;
mod dead_letters;
mod deliveries;
mod engine;
mod forks;
mod formats;
mod lanes;
mod machines;
mod names;
mod nodes;
mod pending;
mod records;
mod shapes;
mod starts;
mod stranded;
mod street;
mod support;
mod topics;
mod worker;
