//! Commands that use a server, one file each.

pub(crate) mod control;
pub(crate) mod dead_letters;
mod entry_line;
pub(crate) mod events;
pub(crate) mod follow;
pub(crate) mod health;
pub(crate) mod journal;
pub(crate) mod logs;
pub(crate) mod machine;
pub(crate) mod open;
mod run_id;
pub(crate) mod runs;
pub(crate) mod show;
pub(crate) mod start;
pub(crate) mod subscriptions;
mod timeline;
mod times;
pub(crate) mod transfer;
pub(crate) mod workers;
pub(crate) mod workflows;
