//! The history of a run of a state machine, and the states that it was in.

use everstep_core::ids::RunId;
use everstep_core::journal::Kind;
use everstep_core::machine::{History, HistoryRow};
use everstep_core::run::State;
use everstep_core::workflow::Workflow;
use everstep_store::RunRow;

use super::runs::Runs;
use crate::error::Error;

/// The number of entries that are read together.
const READ_BATCH_ENTRIES: usize = 500;

/// A page of a history, oldest first.
pub struct HistoryPage {
    pub rows: Vec<HistoryRow>,
    /// The seq after which the next page begins; none on the last page.
    pub next_after: Option<u64>,
}

impl Runs {
    /// The rows after a seq. The page ends at the limit of rows, or when the entries of its rows reach the limit of
    /// bytes. The journal is read from its beginning: a row contains the changes of the context, which is a fold.
    pub async fn history(&self, run: RunId, after: u64, limit: usize, bytes_max: usize) -> Result<HistoryPage, Error> {
        let mut history = History::new(run);
        let (mut rows, mut bytes, mut seq) = (Vec::new(), 0, 0);
        loop {
            let batch = self.read_batch(run, seq, READ_BATCH_ENTRIES).await?;
            let Some(last) = batch.last() else { return Ok(HistoryPage { rows, next_after: None }) };
            seq = last.seq;
            for journal in batch {
                let size = journal.bytes;
                let entry = journal.entry.map_err(|error| Error::Busy(error.to_string()))?;
                let Some(row) = history.apply(&entry).filter(|row| row.seq > after) else { continue };
                // One row more than fits: there is another page.
                if rows.len() == limit || (bytes + size > bytes_max && !rows.is_empty()) {
                    let next_after = rows.last().map(|row: &HistoryRow| row.seq);
                    return Ok(HistoryPage { rows, next_after });
                }
                bytes += size;
                rows.push(row);
            }
        }
    }

    /// Whether a run was in a state that fits, before one of its transitions. The journal is read from its beginning.
    pub async fn was_in_state(
        &self,
        row: &RunRow,
        mut fits: impl FnMut(&Workflow, &State) -> bool,
    ) -> Result<bool, Error> {
        let workflow = self.engine.library().of_run(row).await?;
        let mut state = State::new(row.id, &workflow);
        loop {
            let batch = self.read_batch(row.id, state.seq, READ_BATCH_ENTRIES).await?;
            if batch.is_empty() {
                return Ok(false);
            }
            for journal in batch {
                if journal.kind == Kind::TransitionApplied && state.seq > 0 && fits(&workflow, &state) {
                    return Ok(true);
                }
                let entry = journal.entry.map_err(|error| Error::Busy(error.to_string()))?;
                state.apply(&workflow, &entry).map_err(|error| Error::Busy(error.to_string()))?;
            }
        }
    }
}
