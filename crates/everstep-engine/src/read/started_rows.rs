//! The rows of runs that were started at this node. A caller that waits for the end of such a run need not read its row.
//!
//! A row is kept as the start has written it. The end of a run replaces the columns that change; the others stay as they
//! are. Only the shard of the run knows whether this node still owns it: see `Shard::watch`. If the node was fenced, the
//! caller waits until the node detects it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::status::Status;
use everstep_store::RunRow;

/// The number of starts whose rows are kept: most callers wait soon after the start.
const STARTS_MAX: usize = 1_024;
/// A row with larger documents is not kept.
const DOCUMENT_BYTES_MAX: usize = 2 * 1024;

#[derive(Default)]
pub(crate) struct StartedRows(Mutex<Rows>);

#[derive(Default)]
struct Rows {
    by_run: BTreeMap<RunId, Box<RunRow>>,
    /// The last starts, oldest first. The rows of some of them were taken.
    starts: VecDeque<RunId>,
}

impl StartedRows {
    /// Keeps the row of a run that was just started, if this node owns the run and it continues.
    pub(crate) fn keep(&self, row: &RunRow) {
        let continues = row.owner.is_some() && matches!(row.status, Status::Running | Status::Waiting);
        if !continues || row.input.size() + row.tags.size() > DOCUMENT_BYTES_MAX {
            return;
        }
        let row = Box::new(row.clone());
        let mut rows = self.rows();
        rows.starts.push_back(row.id);
        rows.by_run.insert(row.id, row);
        if rows.starts.len() > STARTS_MAX
            && let Some(oldest) = rows.starts.pop_front()
        {
            rows.by_run.remove(&oldest);
        }
    }

    /// Takes the row of a run. It is as old as the start, and the run may have ended since.
    pub(crate) fn take(&self, workspace: WorkspaceId, run: RunId) -> Option<Box<RunRow>> {
        let mut rows = self.rows();
        // A run of another workspace does not exist for the caller.
        let is_here = rows.by_run.get(&run).is_some_and(|row| row.workspace == workspace);
        if is_here { rows.by_run.remove(&run) } else { None }
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().expect("no holder of the lock panics")
    }
}
