//! The real binary as a user meets it: what it prints, how it exits, and what it survives.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod crash;
mod documents;
mod run;
mod serve;
mod support;
mod validate;
