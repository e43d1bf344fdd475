//! Log lines of a run's steps.

use everstep_core::ids::{RunId, StepKey};
use everstep_core::story::{self, StepContext, Update};
use everstep_core::time::Timestamp;

use super::runs::Runs;
use crate::error::Error;

/// The number of entries that are read together.
const READ_BATCH_ENTRIES: usize = 500;

/// A line that a step has written.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    /// The entry that contains it.
    pub seq: u64,
    pub step: StepKey,
    pub attempt: u32,
    /// When the attempt ended.
    pub at: Timestamp,
    pub line: String,
}

/// A page of log lines.
pub struct LogPage {
    pub lines: Vec<LogLine>,
    /// The seq after which the next page begins; none on the last page.
    pub next_after: Option<u64>,
}

impl Runs {
    /// The log lines of a run's steps after an entry, in order: of all steps, or of one. The page ends with the first
    /// attempt that fills it; the lines of an attempt stay together.
    pub async fn logs(&self, run: RunId, mut after: u64, limit: usize, step: Option<&str>) -> Result<LogPage, Error> {
        let (mut lines, mut has_more) = (Vec::new(), true);
        while has_more && lines.len() < limit {
            let batch = self.engine.world().runs.journal(run, after, READ_BATCH_ENTRIES).await?;
            has_more = batch.len() == READ_BATCH_ENTRIES;
            for stored in batch {
                if lines.len() >= limit {
                    has_more = true;
                    break;
                }
                after = stored.seq;
                let is_asked_for = |key: &StepKey| step.is_none_or(|step| step == key.as_str());
                // An entry of another step need not be decoded.
                if stored.row.step.as_ref().is_some_and(is_asked_for) {
                    append(&mut lines, &super::journal::JournalEntry::decode(stored));
                }
            }
        }
        Ok(LogPage { lines, next_after: has_more.then_some(after) })
    }
}

fn append(lines: &mut Vec<LogLine>, entry: &super::journal::JournalEntry) {
    let Ok(entry) = &entry.entry else { return };
    let Some(Update::Step(update)) = story::read(entry, StepContext::default()) else { return };
    let (seq, attempt, at) = (update.seq, update.attempt, update.at);
    let line = |line: &String| LogLine { seq, step: update.step.clone(), attempt, at, line: line.clone() };
    lines.extend(update.logs.iter().map(line));
}
