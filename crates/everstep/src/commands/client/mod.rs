//! Commands that ask a server, one file each.

pub(crate) mod control;
pub(crate) mod logs;
pub(crate) mod runs;
pub(crate) mod show;
pub(crate) mod start;
mod timeline;
pub(crate) mod transfer;
