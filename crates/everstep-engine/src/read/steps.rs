//! Pages of a run's steps.

use std::ops::RangeInclusive;

use everstep_core::ids::StepKey;
use everstep_core::status::StepStatus;
use everstep_core::story::{StepStory, Story};
use everstep_store::RunRow;

use super::journal::JournalEntry;
use super::runs::Runs;
use crate::error::Error;

/// The number of entries that are read together.
const READ_BATCH_ENTRIES: usize = 200;
/// A page takes no further steps when the entries that were read for it have this many bytes.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A page of steps, in the order in which they began.
pub struct StepPage {
    pub steps: Vec<StepStory>,
    /// The entry after which the steps of the next page begin; none on the last page.
    pub next_after: Option<u64>,
}

impl Runs {
    /// The steps of a run that began after an entry. Entries that this build cannot read are left out: the journal
    /// shows that they exist.
    pub async fn story(&self, row: &RunRow, after: u64, limit: usize) -> Result<StepPage, Error> {
        let workflow = self.engine.library().of_run(row).await.ok();
        let mut page = PageBuilder::new(Story::page(workflow.as_ref()), after, limit);
        let mut last = page.first_read();
        loop {
            let batch = self.read_batch(row.id, last, READ_BATCH_ENTRIES).await?;
            let is_last = batch.len() < READ_BATCH_ENTRIES;
            for entry in batch {
                last = entry.seq;
                page.apply(&entry);
            }
            if is_last || page.is_settled() {
                return Ok(page.finish(row.ended_at.is_some()));
            }
        }
    }
}

/// Collects the steps that begin after an entry, as many as the page has room for, and folds their later entries.
struct PageBuilder {
    story: Story,
    after: u64,
    limit: usize,
    /// The steps of the page.
    keys: Vec<StepKey>,
    /// The entry with which the last step of the page begins.
    last: u64,
    bytes: usize,
    has_more: bool,
}

impl PageBuilder {
    fn new(story: Story, after: u64, limit: usize) -> Self {
        Self { story, after, limit, keys: Vec::new(), last: after, bytes: 0, has_more: false }
    }

    /// The entry after which the journal must be read.
    fn first_read(&self) -> u64 {
        if self.story.is_whole() { 0 } else { self.after }
    }

    fn is_full(&self) -> bool {
        self.keys.len() >= self.limit || self.bytes >= PAGE_BYTES_MAX && !self.keys.is_empty()
    }

    /// Whether no later entry can change the page.
    fn is_settled(&self) -> bool {
        let is_over = |step: &StepStory| matches!(step.status, StepStatus::Completed | StepStatus::Skipped);
        self.has_more && self.keys.iter().filter_map(|key| self.story.step(key)).all(is_over)
    }

    fn apply(&mut self, journal: &JournalEntry) {
        let is_after = journal.seq > self.after;
        if is_after && !self.is_full() {
            self.bytes += journal.bytes;
        }
        let Ok(entry) = &journal.entry else { return };
        if is_after && self.story.begins_step(entry) {
            if self.is_full() {
                self.has_more = true;
                // A story that is not whole need not contain the steps of other pages.
                if !self.story.is_whole() {
                    return;
                }
            } else {
                self.keys.extend(journal.step.clone());
                self.last = journal.seq;
            }
        }
        self.story.apply(entry);
        if let Some((key, _)) = entry.event.step()
            && self.story.step(key).is_some_and(|step| !self.span().contains(&step.first_seq))
        {
            self.story.drop_values(key);
        }
    }

    /// The entries with which the steps of the page begin.
    fn span(&self) -> RangeInclusive<u64> {
        self.after + 1..=self.last
    }

    /// The page. Open steps of a run that has ended are cancelled, even if not all entries could be read.
    fn finish(mut self, has_ended: bool) -> StepPage {
        if has_ended {
            self.story.end_unread();
        }
        let (span, next_after) = (self.span(), Some(self.last).filter(|_| self.has_more));
        let steps = self.story.into_steps().filter(|step| span.contains(&step.first_seq)).collect();
        StepPage { steps, next_after }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use everstep_core::ids::NodeId;
    use everstep_core::journal::{Dispatch, Entry, Event, Outcome, TimerPurpose};
    use everstep_core::style::Style;
    use everstep_core::time::Timestamp;
    use everstep_core::workflow::Workflow;

    use super::*;

    fn dispatched(step: &str, attempt: u32) -> Event {
        Event::StepDispatched { step: step.into(), attempt, dispatch: Dispatch::Task }
    }

    fn completed(step: &str, attempt: u32) -> Event {
        Event::StepCompleted { step: step.into(), attempt, outcome: Outcome::default() }
    }

    fn skipped(step: &str) -> Event {
        Event::StepSkipped { step: step.into() }
    }

    /// Reads a page as [`Runs::story`] does: the first entry of `events` has seq 1.
    fn page(workflow: Option<&Arc<Workflow>>, events: &[Event], after: u64, limit: usize) -> PageBuilder {
        let mut page = PageBuilder::new(Story::page(workflow), after, limit);
        let first = page.first_read();
        for (seq, event) in (1..).zip(events).filter(|(seq, _)| *seq > first) {
            let (at, writer) = (Timestamp::EPOCH, NodeId::new(Timestamp::EPOCH, 1));
            let (step, attempt) = event.step().map_or((None, 0), |(step, attempt)| (Some(step.clone()), attempt));
            let entry = Ok(Entry::new(seq, at, event.clone()));
            page.apply(&JournalEntry {
                seq,
                at,
                writer,
                commit: None,
                kind: event.kind(),
                step,
                attempt,
                bytes: 1,
                entry,
            });
        }
        page
    }

    fn keys(page: &StepPage) -> (Vec<String>, Option<u64>) {
        (page.steps.iter().map(|step| step.key.to_string()).collect(), page.next_after)
    }

    fn found(keys: &[&str], next: Option<u64>) -> (Vec<String>, Option<u64>) {
        (keys.iter().map(|key| (*key).to_owned()).collect(), next)
    }

    #[test]
    fn a_page_ends_with_its_limit_and_the_next_begins_there() {
        let events = [skipped("z"), dispatched("a", 1), completed("a", 1), skipped("b"), dispatched("c", 1)];
        assert!(!page(None, &events[..3], 1, 1).is_settled(), "a later step may follow");
        assert!(page(None, &events, 1, 1).is_settled(), "the page is full and its steps have ended");
        assert_eq!(keys(&page(None, &events, 1, 1).finish(false)), found(&["a"], Some(2)));
        assert_eq!(keys(&page(None, &events, 2, 1).finish(false)), found(&["b"], Some(4)));
        assert_eq!(keys(&page(None, &events, 2, 9).finish(false)), found(&["b", "c"], None));
        let last = page(None, &events, 4, 9).finish(true);
        assert_eq!(last.steps[0].status, StepStatus::Cancelled, "the run has ended");
    }

    #[test]
    fn what_becomes_of_a_step_later_is_shown_on_its_page() {
        let events = [dispatched("a", 1), dispatched("b", 1), completed("b", 1), dispatched("a", 2), completed("a", 2)];
        let first = page(None, &events, 0, 1).finish(false);
        assert_eq!((first.steps[0].status, first.steps[0].attempts.len()), (StepStatus::Completed, 2));
        assert_eq!(keys(&first), found(&["a"], Some(1)));
        assert_eq!(keys(&page(None, &events, 1, 9).finish(false)), found(&["b"], None), "not the second attempt of a");
    }

    #[test]
    fn a_step_of_code_is_on_one_page() {
        let style = Style::Code;
        let workflow = Arc::new(Workflow {
            name: "w".to_owned(),
            version: 1,
            style,
            is_unsaved: false,
            publisher: Default::default(),
        });
        let timer = |step: &str| Event::TimerSet {
            step: step.into(),
            attempt: 1,
            due: Timestamp::EPOCH,
            why: TimerPurpose::Sleep,
        };
        let fired = |step: &str| Event::TimerFired { step: step.into(), attempt: 1 };
        let events = [completed("a", 1), timer("nap"), completed("b", 1), fired("nap"), completed("c", 1)];
        let (mut after, mut all) = (0, Vec::new());
        loop {
            let (keys, next) = keys(&page(Some(&workflow), &events, after, 1).finish(false));
            all.extend(keys);
            let Some(next) = next else { break };
            after = next;
        }
        assert_eq!(all, ["a", "nap", "b", "c"]);
        let middle = page(Some(&workflow), &events, 2, 1);
        let outputs = middle.story.steps().map(|step| step.output.is_some());
        assert_eq!(outputs.collect::<Vec<_>>(), [false, false, true, false], "values of other pages are dropped");
        let nap = page(Some(&workflow), &events, 1, 1).finish(false);
        assert_eq!((nap.steps[0].kind.as_deref(), nap.steps[0].status), (Some("sleep"), StepStatus::Completed));
    }
}
