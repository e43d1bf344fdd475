//! Writes decisions: `propose` makes an item of a run's decision, the committer writes items in batches.

mod batch_size;
mod committer;
pub(crate) mod propose;

pub(crate) use committer::{Committer, Proposal, SECOND_BATCH_ITEMS, Verdict};
