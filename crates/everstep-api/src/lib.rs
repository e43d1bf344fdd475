//! Speaks HTTP. It asks the engine and shows what the engine says; it decides nothing.
//!
//! So far it answers whether the process lives and whether it is ready to work.

mod health;
mod problem;
mod server;

pub use server::{Served, router, serve};
