//! The rows that a workspace has of a kind that is bounded by a quota.
//!
//! A count reads as many rows as the workspace has, so that a caller who repeats a refused request would keep the
//! database busy with counts. A node therefore reads the count of a workspace at most once in [`COUNT_TTL`], and
//! changes it with the rows that the node adds and removes.
//!
//! On SQLite the quota is exact. On PostgreSQL a workspace can exceed it by the rows that other nodes add within
//! [`COUNT_TTL`], and by those of transactions that are in progress while the count is read.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use everstep_core::ids::WorkspaceId;
use everstep_core::limits;

/// A count that is older than this is read again.
const COUNT_TTL: Duration = Duration::from_secs(5);
/// Counts in memory; old ones are removed first.
const COUNTS_MAX: usize = 10_000;

/// The counts that were read recently, by workspace.
#[derive(Debug, Default)]
pub(crate) struct QuotaCounts(Mutex<HashMap<WorkspaceId, (Instant, u64)>>);

impl QuotaCounts {
    /// Begins a change that adds rows.
    pub(crate) fn begin(&self) -> NewRows<'_> {
        NewRows { counts: self, added: Vec::new() }
    }

    fn add(&self, workspace: WorkspaceId, quota: u64) -> Option<Result<(), u64>> {
        let mut counts = self.counts();
        let (read_at, count) = counts.get_mut(&workspace)?;
        if read_at.elapsed() >= COUNT_TTL {
            return None;
        }
        if *count >= quota {
            return Some(Err(*count));
        }
        *count += 1;
        Some(Ok(()))
    }

    /// Records a count that was read. If another call has recorded one just before, that one stays, because it includes
    /// the rows that were added since.
    fn set(&self, workspace: WorkspaceId, count: u64) {
        let mut counts = self.counts();
        if counts.len() >= COUNTS_MAX {
            counts.retain(|_, (read_at, _)| read_at.elapsed() < COUNT_TTL);
        }
        let known = counts.entry(workspace).or_insert((Instant::now(), count));
        if known.0.elapsed() >= COUNT_TTL {
            *known = (Instant::now(), count);
        }
    }

    /// A row of a workspace was removed.
    pub(crate) fn remove(&self, workspace: WorkspaceId) {
        if let Some((_, count)) = self.counts().get_mut(&workspace) {
            *count = count.saturating_sub(1);
        }
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<WorkspaceId, (Instant, u64)>> {
        self.0.lock().expect("no holder of the lock panics")
    }
}

/// The rows that a change adds. They are counted at once, and no longer counted if the change is not committed.
pub(crate) struct NewRows<'a> {
    counts: &'a QuotaCounts,
    added: Vec<WorkspaceId>,
}

impl NewRows<'_> {
    /// Counts one more row of a workspace, if the quota allows it; otherwise the error is the count. Returns none if
    /// the count must be read first: [`NewRows::set_and_add`].
    pub(crate) fn add(&mut self, workspace: WorkspaceId, quota: usize) -> Option<Result<(), u64>> {
        let counted = self.counts.add(workspace, quota as u64)?;
        if counted.is_ok() {
            self.added.push(workspace);
        }
        Some(counted)
    }

    /// Records a count that was read, and counts one more row.
    pub(crate) fn set_and_add(&mut self, workspace: WorkspaceId, count: u64, quota: usize) -> Result<(), u64> {
        self.counts.set(workspace, count);
        // The count is missing only if this call has waited for a long time.
        self.add(workspace, quota).unwrap_or(Ok(()))
    }

    /// The change was committed.
    pub(crate) fn keep(mut self) {
        self.added.clear();
    }
}

impl Drop for NewRows<'_> {
    fn drop(&mut self) {
        for workspace in &self.added {
            self.counts.remove(*workspace);
        }
    }
}

/// The number of workflows of a workspace, from the numbers that `count_workflows.sql` returns. A workspace of which not
/// all names were read has no room.
pub(crate) fn workflow_count(count: u64, names: u64) -> u64 {
    if names >= limits::COUNTED_NAMES as u64 { count.max(limits::WORKFLOWS as u64) } else { count }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_follows_the_rows_that_are_added_and_removed() {
        let (counts, here) = (QuotaCounts::default(), WorkspaceId::DEFAULT);
        let mut one = counts.begin();
        assert_eq!(one.add(here, 3), None, "it must be read first");
        assert_eq!(one.set_and_add(here, 2, 3), Ok(()));
        // A count that was read at the same time does not contain the row.
        assert_eq!(counts.begin().set_and_add(here, 2, 3), Err(3));
        one.keep();
        assert_eq!(counts.begin().add(here, 3), Some(Err(3)));
        counts.remove(here);
        // A change that is not committed adds nothing.
        for _ in 0..2 {
            assert_eq!(counts.begin().add(here, 3), Some(Ok(())));
        }
    }
}
