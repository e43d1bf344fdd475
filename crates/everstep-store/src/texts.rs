//! Texts that a database can store: those without a NUL character, which not every database accepts.
//!
//! A text with a NUL is never stored, so a search for one finds nothing.

use everstep_core::dead_letter::DeadLetter;
use everstep_core::ids::StepKey;
use everstep_core::topics::{Subscription, Target, TopicEvent};

use crate::error::{Error, Result};
use crate::item::{Gate, Item, SideWrites, WaitChange};
use crate::topics::EventSlice;

pub(crate) fn has_nul(text: &str) -> bool {
    text.as_bytes().contains(&0)
}

/// Rejects texts that cannot be stored.
pub(crate) fn check<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<()> {
    if texts.into_iter().any(has_nul) {
        return Err(Error::Refused("a text contains a NUL character".to_owned()));
    }
    Ok(())
}

/// Rejects an item with a text that cannot be stored.
pub(crate) fn check_item(item: &Item) -> Result<()> {
    if let Gate::Start(run) = &item.gate {
        let key = run.key.iter().flat_map(|(scope, key)| [scope.as_str(), key]);
        check([run.workflow.as_str(), &run.lane].into_iter().chain(key))?;
    }
    check(item.entries.iter().filter_map(|entry| entry.row.step.as_ref()).map(StepKey::as_str))?;
    for change in &item.waits {
        match change {
            WaitChange::Open(wait) => check([wait.step.as_str(), &wait.event])?,
            WaitChange::Close(step) => check([step.as_str()])?,
        }
    }
    item.side.as_deref().map_or(Ok(()), check_side)
}

/// Rejects side writes with a text that cannot be stored.
pub(crate) fn check_side(side: &SideWrites) -> Result<()> {
    check(side.audit.iter().flat_map(|row| row.texts()))?;
    side.dead_letters.iter().try_for_each(|letter| check_letter(letter))?;
    side.published.iter().try_for_each(|event| check_event(event))
}

/// Rejects a dead letter with a text that cannot be stored.
pub(crate) fn check_letter(letter: &DeadLetter) -> Result<()> {
    let names = letter.workflow.as_deref().into_iter().chain(letter.step.as_ref().map(StepKey::as_str));
    check([letter.kind.as_str(), &letter.delivery, &letter.target, letter.error()].into_iter().chain(names))
}

/// Rejects an event with a text that cannot be stored.
pub(crate) fn check_event(event: &TopicEvent) -> Result<()> {
    check([event.topic.as_str(), &event.source, &event.event_id].into_iter().chain(event.subject.as_deref()))
}

/// Rejects a subscription with a text that cannot be stored.
pub(crate) fn check_subscription(subscription: &Subscription) -> Result<()> {
    match &subscription.target {
        Target::Workflow { name, .. } => check([name.as_str()]),
    }
}

/// Rejects a slice with a text that cannot be stored.
pub(crate) fn check_slice(slice: &EventSlice) -> Result<()> {
    slice.dead_letters.iter().try_for_each(check_letter)?;
    slice.starts.iter().try_for_each(|start| {
        let key = start.new.key.iter().flat_map(|(scope, key)| [scope.as_str(), key]);
        check([start.new.workflow.as_str(), &start.new.lane].into_iter().chain(key))
    })
}

/// A text after which a page of names starts, without the NUL characters that cannot be sent to every database.
///
/// The part after a NUL has no effect: no stored name contains a NUL, so the same names follow the part before it.
pub(crate) fn page_start(after: Option<&str>) -> &str {
    let after = after.unwrap_or_default();
    after.split('\0').next().unwrap_or_default()
}
