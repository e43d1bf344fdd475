//! A real server that one workspace misuses while another one works.
//!
//! The promise: while one workspace misuses anything that it may use, the p99 of a plain run of another workspace stays
//! below 0.5 s, and the p99 of its requests below 0.3 s, on two cores.
//!
//! The suite measures, so it runs alone on the machine, one test at a time, and prints its figures.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod postgres;
mod promise;
mod sqlite;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "each suite uses a part of it")]
mod support;
