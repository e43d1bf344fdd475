//! One step of a run with its values.

use everstep_core::ids::StepKey;
use everstep_core::journal::{Entry, Event};
use everstep_core::meter::Meter;
use everstep_core::run::task::{self, StepConfig};
use everstep_core::story::{StepStory, Story};
use everstep_core::time::Timestamp;
use everstep_store::RunRow;

use super::runs::Runs;
use crate::error::Error;

/// The number of entries that are read together.
const READ_BATCH_ENTRIES: usize = 200;

/// A step, and one of its attempts.
pub struct StepDetail {
    pub story: StepStory,
    /// The attempt; none for a step that was skipped.
    pub attempt: Option<AttemptDetail>,
    /// None if the style has no configs, or the attempt no dispatch.
    pub config: Option<StepConfig>,
}

/// The entries of one attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptDetail {
    pub attempt: u32,
    pub dispatch_seq: Option<u64>,
    pub dispatched_at: Option<Timestamp>,
    /// When a worker began the attempt.
    pub started_at: Option<Timestamp>,
    pub end_seq: Option<u64>,
    pub ended_at: Option<Timestamp>,
}

impl Runs {
    /// A step by its key, with one attempt, by default the last one. None if the run has no such step, or the step no
    /// such attempt.
    pub async fn step(&self, row: &RunRow, key: &StepKey, attempt: Option<u32>) -> Result<Option<StepDetail>, Error> {
        let workflow = self.engine.library().of_run(row).await.ok();
        let (mut story, mut attempts, mut last) = (Story::new(workflow.as_ref()), Vec::new(), 0);
        loop {
            let batch = self.read_batch(row.id, last, READ_BATCH_ENTRIES).await?;
            let is_last = batch.len() < READ_BATCH_ENTRIES;
            for journal in batch {
                last = journal.seq;
                let Ok(entry) = &journal.entry else { continue };
                story.apply(entry);
                match entry.event.step() {
                    Some((step, _)) if step == key => note(&mut attempts, entry),
                    Some((step, _)) => story.drop_values(step),
                    None => {}
                }
            }
            if is_last {
                break;
            }
        }
        if row.ended_at.is_some() {
            story.end_unread();
        }
        let Some(story) = story.into_steps().find(|step| step.key == *key) else { return Ok(None) };
        let shown = match attempt {
            None => attempts.last().copied(),
            Some(number) => match attempts.iter().rfind(|known| known.attempt == number) {
                Some(known) => Some(*known),
                None => return Ok(None),
            },
        };
        let config = match shown.and_then(|shown| shown.dispatch_seq) {
            Some(seq) => {
                let (workflow, state) = self.state_at(row, seq).await?;
                task::describe_config(&workflow, &state, key, &*self.engine.world().evaluate, &Meter::new())
            }
            None => None,
        };
        Ok(Some(StepDetail { story, attempt: shown, config }))
    }
}

/// Adds an entry about the step to its attempts.
fn note(attempts: &mut Vec<AttemptDetail>, entry: &Entry) {
    let Some((_, attempt)) = entry.event.step().filter(|(_, attempt)| *attempt > 0) else { return };
    let is_dispatch = matches!(entry.event, Event::StepDispatched { .. });
    // A step that a crash has interrupted is dispatched again under the next attempt.
    if is_dispatch || attempts.last().is_none_or(|last| last.attempt != attempt) {
        attempts.push(AttemptDetail { attempt, ..AttemptDetail::default() });
    }
    let Some(last) = attempts.last_mut() else { return };
    let (seq, at) = (Some(entry.seq), Some(entry.at));
    match &entry.event {
        Event::StepDispatched { .. } => (last.dispatch_seq, last.dispatched_at) = (seq, at),
        Event::StepCompleted { outcome, .. } => {
            (last.end_seq, last.ended_at, last.started_at) = (seq, at, outcome.started_at);
        }
        Event::StepFailed { started_at, .. } => {
            (last.end_seq, last.ended_at, last.started_at) = (seq, at, *started_at);
        }
        Event::WaitResolved { .. } => (last.end_seq, last.ended_at) = (seq, at),
        Event::RunStarted { .. }
        | Event::StepSkipped { .. }
        | Event::TimerSet { .. }
        | Event::TimerFired { .. }
        | Event::WaitOpened { .. }
        | Event::SignalBuffered { .. }
        | Event::TurnStarted { .. }
        | Event::TurnLost { .. }
        | Event::TransitionApplied(_)
        | Event::VoteCast(_)
        | Event::Assigned(_)
        | Event::ContextSet { .. }
        | Event::RunPaused { .. }
        | Event::RunResumed
        | Event::RunRetried
        | Event::RunCompleted { .. }
        | Event::RunFailed { .. }
        | Event::RunCancelled { .. } => {}
    }
}
