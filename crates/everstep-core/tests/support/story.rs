//! Compares the story of a journal with the state that the same journal folds to.

use std::collections::BTreeMap;
use std::sync::Arc;

use everstep_core::failure::Failure;
use everstep_core::ids::StepKey;
use everstep_core::journal::{Dispatch, Entry, Event};
use everstep_core::run::State;
use everstep_core::status::StepStatus;
use everstep_core::story::{StepStory, Story, Update};
use everstep_core::workflow::Workflow;

/// At the end of an item the story and the state agree, and the updates contain every status of the story.
pub(crate) fn check(workflow: &Workflow, journal: &[Entry], state: &State) {
    let workflow = Arc::new(workflow.clone());
    let mut story = Story::new(Some(&workflow));
    let mut statuses = BTreeMap::<StepKey, StepStatus>::new();
    for entry in journal {
        for update in story.apply(entry) {
            if let Update::Step(update) = update {
                statuses.insert(update.step.clone(), update.status);
            }
        }
    }
    let mut has_given_up = false;
    for step in story.steps() {
        // A failed attempt may be retried later: its timer is set when the run is no longer paused.
        let may_be_retried =
            step.error.as_ref().is_some_and(|failure| failure.retryable || state.is_delivery(&step.key));
        // The state drops the steps of iterations that have ended.
        match state.step_status(&workflow, &step.key) {
            // A paused fork has open deliveries of its original, which it skips when it is resumed.
            Some(_) if step.is_open() && is_of_another_run(&step.key, journal, state) => {}
            Some(status) => assert!(
                step.status == status || may_be_retried && step.status == StepStatus::Failed,
                "{} is {status} after entry {}: {step:?}",
                step.key,
                state.seq
            ),
            None => has_given_up |= step.is_open(),
        }
        assert_eq!(statuses.get(&step.key), Some(&step.status), "{}", step.key);
    }
    assert!(story.status() == state.status() || has_given_up, "{} after entry {}", story.status(), state.seq);
    assert_eq!(story.run.output.as_ref(), state.output());
    let code = |failure: &Failure| failure.code.clone();
    assert_eq!(story.run.failure.as_ref().map(code), state.failure().map(code));
    check_page(&workflow, journal, &story);
}

/// Whether a step is a delivery that the original of a fork decided.
fn is_of_another_run(key: &StepKey, journal: &[Entry], state: &State) -> bool {
    journal.iter().any(|entry| match &entry.event {
        Event::StepDispatched { step, dispatch: Dispatch::Delivery(delivery), .. } => {
            step == key && !delivery.is_of(state.run, key)
        }
        _ => false,
    })
}

/// A page that begins in the middle has the same steps as the whole story.
fn check_page(workflow: &Arc<Workflow>, journal: &[Entry], whole: &Story) {
    let middle = journal.len() / 2;
    let mut page = Story::page(Some(workflow));
    if page.is_whole() {
        return;
    }
    for entry in &journal[middle..] {
        page.apply(entry);
    }
    let after = journal[..middle].last().map_or(0, |entry| entry.seq);
    let expected: Vec<&StepStory> = whole.steps().filter(|step| step.first_seq > after).collect();
    assert_eq!(page.steps().collect::<Vec<_>>(), expected, "a page after entry {after}");
}
