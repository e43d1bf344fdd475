//! Pages of a journal with the updates of each entry, for readers that show a run without its values.

use std::sync::Arc;

use everstep_core::story::{Story, Update};
use everstep_core::workflow::Workflow;
use everstep_store::RunRow;

use super::journal::JournalEntry;
use super::runs::Runs;
use crate::error::Error;

/// The number of entries that are read together.
const READ_BATCH_ENTRIES: usize = 200;
/// A page ends when the entries that were read for it have this many bytes.
const PAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The fold of a journal, whose updates are the same wherever a reader begins.
///
/// The updates of an entry may concern steps that began long before it: the end of a run cancels its open steps. So the
/// fold begins with the first entry. It holds no values.
pub struct HeadFold {
    story: Story,
}

/// The heads of a page, as a reader has rendered them.
pub struct HeadPage<T> {
    pub heads: Vec<T>,
    /// The seq after which the next page begins; none on the last page.
    pub next_after: Option<u64>,
}

impl HeadFold {
    /// The fold before the first entry.
    pub fn new(workflow: Option<&Arc<Workflow>>) -> Self {
        Self { story: Story::new(workflow) }
    }

    /// The updates of the next entry, without values. An entry that this build cannot read has none.
    pub fn apply<'e>(&mut self, journal: &'e JournalEntry) -> Vec<Update<'e>> {
        let Ok(entry) = &journal.entry else { return Vec::new() };
        let updates = self.story.apply(entry);
        if let Some((key, _)) = entry.event.step() {
            self.story.drop_values(key);
        }
        updates.into_iter().map(Update::without_values).collect()
    }
}

impl Runs {
    /// The fold of a run's journal up to an entry.
    pub async fn head_fold(&self, row: &RunRow, until: u64) -> Result<HeadFold, Error> {
        let workflow = self.engine.library().of_run(row).await.ok();
        let mut fold = HeadFold::new(workflow.as_ref());
        let mut last = 0;
        while last < until {
            let wanted = usize::try_from(until - last).unwrap_or(usize::MAX).min(READ_BATCH_ENTRIES);
            let batch = self.read_batch(row.id, last, wanted).await?;
            let Some(end) = batch.last().map(|entry| entry.seq) else { break };
            for entry in &batch {
                fold.apply(entry);
            }
            last = end;
        }
        Ok(fold)
    }

    /// The entries after a seq with their updates, each rendered by the reader.
    pub async fn heads<T>(
        &self,
        row: &RunRow,
        after: u64,
        limit: usize,
        render: impl Fn(&JournalEntry, Vec<Update<'_>>) -> T,
    ) -> Result<HeadPage<T>, Error> {
        let mut fold = self.head_fold(row, after).await?;
        let (mut heads, mut bytes, mut last, mut has_more) = (Vec::new(), 0, after, true);
        while has_more && heads.len() < limit && bytes < PAGE_BYTES_MAX {
            let wanted = READ_BATCH_ENTRIES.min(limit - heads.len());
            let batch = self.read_batch(row.id, last, wanted).await?;
            has_more = batch.len() == wanted;
            for entry in batch {
                (last, bytes) = (entry.seq, bytes + entry.bytes);
                let updates = fold.apply(&entry);
                heads.push(render(&entry, updates));
            }
        }
        Ok(HeadPage { heads, next_after: has_more.then_some(last) })
    }
}
