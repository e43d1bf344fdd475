//! Writes decisions: `propose` makes an item of what was decided for a run, the committer writes items in batches.

mod committer;
pub(crate) mod propose;

pub(crate) use committer::{Committer, Proposal, SECOND_BATCH_ITEMS, Verdict};
