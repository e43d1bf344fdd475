//! A run in memory.

pub(crate) mod active;
mod children;
