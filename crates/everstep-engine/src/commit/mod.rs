//! Writes decisions: from what was decided for a run to a durable transaction.

mod committer;
pub(crate) mod propose;

pub(crate) use committer::{CROWD, Committer};
