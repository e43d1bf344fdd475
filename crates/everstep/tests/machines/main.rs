//! Real servers with people: fifty persons at once, repeated requests, deadlines, and nodes that are killed.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod contests;
mod deadlines;
mod deliveries;
mod files;
mod keys;
mod killed;
mod letters;
mod mails;
mod office;
mod parents;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "each suite uses a part of it")]
mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// These tests run one at a time: many of them measure, and all of them use every core.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
