//! The history of a run of a state machine, and the states that it was in.

use std::ops::RangeInclusive;

use everstep_core::ids::RunId;
use everstep_core::journal::Kind;
use everstep_core::machine::{History, HistoryRow, Progress};
use everstep_core::run::{SNAPSHOT_FORMAT, State};
use everstep_core::workflow::Workflow;

use super::journal::JournalEntry;
use super::runs::{JournaledRun, LoadedRun, Runs};
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

    /// Whether a run was in a state that fits, with one of these versions, before one of its transitions.
    ///
    /// Requests are for the newest versions: the entries that were loaded with the run contain them, unless the run has
    /// a later snapshot. Then the journal is read from its beginning, up to the last of these versions.
    pub async fn was_in_state(
        &self,
        run: &JournaledRun,
        versions: RangeInclusive<u32>,
        mut fits: impl FnMut(&Workflow, &State) -> bool,
    ) -> Result<bool, Error> {
        let JournaledRun { loaded: LoadedRun { row, workflow, .. }, snapshot, entries } = run;
        let Some(workflow) = workflow else { return Ok(false) };
        let first = match snapshot {
            None => Some(State::new(row.id, workflow)),
            Some(snapshot) if snapshot.format == SNAPSHOT_FORMAT => {
                let state = State::from_snapshot(workflow, &snapshot.state).ok();
                state.filter(|state| version_no(state) <= *versions.start())
            }
            Some(_) => None,
        };
        if let Some(mut state) = first {
            let entries = entries.iter().cloned().map(JournalEntry::decode);
            return find_left(workflow, &mut state, entries, &versions, &mut fits);
        }
        let mut state = State::new(row.id, workflow);
        while version_no(&state) <= *versions.end() {
            let batch = self.read_batch(row.id, state.seq, READ_BATCH_ENTRIES).await?;
            if batch.is_empty() {
                return Ok(false);
            }
            if find_left(workflow, &mut state, batch, &versions, &mut fits)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether one of the transitions among these entries leaves a state that fits, with one of these versions. The entries
/// are applied to the state.
fn find_left(
    workflow: &Workflow,
    state: &mut State,
    entries: impl IntoIterator<Item = JournalEntry>,
    versions: &RangeInclusive<u32>,
    fits: &mut impl FnMut(&Workflow, &State) -> bool,
) -> Result<bool, Error> {
    for journal in entries {
        let is_left = journal.kind == Kind::TransitionApplied && state.seq > 0;
        if is_left && versions.contains(&version_no(state)) && fits(workflow, state) {
            return Ok(true);
        }
        if version_no(state) > *versions.end() {
            return Ok(false);
        }
        let entry = journal.entry.map_err(|error| Error::Busy(error.to_string()))?;
        state.apply(workflow, &entry).map_err(|error| Error::Busy(error.to_string()))?;
    }
    Ok(false)
}

/// The number of transitions so far.
fn version_no(state: &State) -> u32 {
    state.machine().map_or(0, Progress::version_no)
}
