//! Pages of a journal.

use everstep_core::ids::{CommitId, NodeId, RunId, StepKey};
use everstep_core::journal::codec::{self, DecodeError};
use everstep_core::journal::{Entry, Kind};
use everstep_core::time::Timestamp;
use everstep_store::{RunStore, StoredEntry};

use super::runs::Runs;
use crate::error::Error;

/// The number of entries that are read together.
const READ_BATCH_ENTRIES: usize = 50;
/// The number of entries that are read together to fold a state.
const FOLD_BATCH_ENTRIES: usize = 500;

/// One entry with the columns of its row, which are known even if this build cannot read the entry.
#[derive(Debug)]
pub struct JournalEntry {
    pub seq: u64,
    pub at: Timestamp,
    /// The node that wrote it.
    pub writer: NodeId,
    /// The item that it belongs to, on the item's first entry.
    pub commit: Option<CommitId>,
    pub kind: Kind,
    pub step: Option<StepKey>,
    /// 0 if there is none.
    pub attempt: u32,
    /// The size of its stored payload.
    pub bytes: usize,
    pub entry: Result<Entry, DecodeError>,
}

/// A page of a journal.
pub struct JournalPage {
    pub entries: Vec<JournalEntry>,
    /// The seq after which the next page begins; none on the last page.
    pub next_after: Option<u64>,
}

impl JournalEntry {
    pub fn decode(stored: StoredEntry) -> Self {
        let StoredEntry { seq, at, writer, commit, row } = stored;
        Self {
            seq,
            at,
            writer,
            commit,
            kind: row.kind,
            step: row.step.clone(),
            attempt: row.attempt,
            bytes: row.payload.len(),
            entry: codec::decode(seq, at, row),
        }
    }
}

/// Reads the entries of a journal from its beginning to a seq, in batches.
pub(crate) async fn read_until(
    store: &dyn RunStore,
    run: RunId,
    last: u64,
    mut add: impl FnMut(StoredEntry) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut after = 0;
    while after < last {
        let wanted = usize::try_from(last - after).unwrap_or(usize::MAX).min(FOLD_BATCH_ENTRIES);
        let batch = store.journal(run, after, wanted).await?;
        let Some(end) = batch.last().map(|entry| entry.seq) else { break };
        batch.into_iter().try_for_each(&mut add)?;
        after = end;
    }
    Ok(())
}

impl Runs {
    /// The entries after a seq. The page ends at the limit of entries, or when it reaches the limit of bytes.
    pub async fn journal(
        &self,
        run: RunId,
        mut after: u64,
        limit: usize,
        bytes_max: usize,
    ) -> Result<JournalPage, Error> {
        let (mut entries, mut bytes, mut has_more) = (Vec::new(), 0, true);
        while has_more && entries.len() < limit && bytes < bytes_max {
            let wanted = READ_BATCH_ENTRIES.min(limit - entries.len());
            let batch = self.read_batch(run, after, wanted).await?;
            has_more = batch.len() == wanted;
            after = batch.last().map_or(after, |entry| entry.seq);
            bytes += batch.iter().map(|entry| entry.bytes).sum::<usize>();
            entries.extend(batch);
        }
        Ok(JournalPage { entries, next_after: has_more.then_some(after) })
    }

    /// Entries after a seq, up to a limit, decoded.
    pub(super) async fn read_batch(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<JournalEntry>, Error> {
        let batch = self.engine.world().runs.journal(run, after, limit).await?;
        Ok(batch.into_iter().map(JournalEntry::decode).collect())
    }
}
