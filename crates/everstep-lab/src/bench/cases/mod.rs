//! The measurements. Each case is a file; `case` finds them by name.

mod case;
mod code;
mod events;
mod follow;
mod growth;
mod guards;
mod http;
mod idle;
mod latency;
mod limit;
mod lines;
mod lists;
mod machine;
mod meter;
mod neighbours;
mod server;
mod shape;
mod sleeping;
mod starts;
mod stats;
mod steps;
mod store;
mod sweep;
mod throughput;
mod two_nodes;

pub(super) use case::{Case, SAMPLES};
pub(super) use code::Kit;
