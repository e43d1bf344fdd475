//! Entries of a journal without their values, each with the updates of the run and its steps.

use std::borrow::Cow;

use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, StepKey};
use everstep_core::journal::{Dispatch, Event, Outcome, Resolution};
use everstep_core::payload::Payload;
use everstep_core::story::{Activity, MachineUpdate, RunUpdate, StepUpdate, Update};
use everstep_engine::JournalEntry;
use schemars::JsonSchema;
use serde::Serialize;

use super::step::StepWord;
use crate::http::schema::Id;
use crate::http::time::Time;

/// Characters of a message or a reason.
const MESSAGE_CHARS_MAX: usize = 200;

/// A page of heads.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Heads {
    pub(crate) entries: Vec<Head>,
    /// The `after` of the next page; null if there is none.
    pub(crate) next_after: Option<u64>,
}

/// An entry without its values.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Head {
    pub(crate) seq: u64,
    at: Time,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    step: Option<StepKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(flatten)]
    facts: Facts,
    /// The updates that follow from the entry. A reader that applies all of them, in order, has the run as it is.
    updates: Vec<HeadUpdate>,
}

/// The small parts of an entry's data.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Facts {
    /// The handle with which a step completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<String>,
    /// The work that a dispatched step starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["task", "instant", "publish", "delay", "wait", "child", "body", "delivery"]))]
    dispatch: Option<&'static str>,
    /// When a step continues without an input.
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<Time>,
    /// The run that a step starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Id>")]
    child: Option<RunId>,
    /// The name of a signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureHead>,
    /// The turn of a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<u32>,
    /// The first 200 characters of the reason of a cancellation.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// When a worker began the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Time>,
    /// The size of the values that were left out.
    bytes: usize,
    /// The number of log lines that were left out.
    log_lines: usize,
}

/// The code of a failure, and the first 200 characters of its message.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FailureHead {
    code: String,
    message: String,
}

impl FailureHead {
    fn from_failure(failure: &Failure) -> Self {
        Self { code: failure.code.clone(), message: shorten(&failure.message) }
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(MESSAGE_CHARS_MAX).collect()
}

impl Head {
    pub(crate) fn from_journal(journal: &JournalEntry, updates: Vec<Update<'_>>) -> Self {
        let facts = match &journal.entry {
            Ok(entry) => Facts::from_event(&entry.event),
            Err(_) => Facts { bytes: journal.bytes, ..Facts::default() },
        };
        Self {
            seq: journal.seq,
            at: Time::from_timestamp(journal.at),
            event: journal.kind.name(),
            step: journal.step.clone(),
            attempt: Some(journal.attempt).filter(|attempt| *attempt > 0),
            facts,
            updates: updates.into_iter().map(HeadUpdate::from_update).collect(),
        }
    }
}

impl Facts {
    fn from_event(event: &Event) -> Self {
        let none = Self::default();
        let size = |payload: &Option<Payload>| payload.as_ref().map_or(0, Payload::size);
        match event {
            Event::RunStarted { input, definition, .. } => Self { bytes: input.size() + size(definition), ..none },
            Event::StepDispatched { dispatch, .. } => Self::from_dispatch(dispatch),
            Event::StepCompleted { outcome, .. } => Self {
                handle: outcome.handle.clone(),
                started_at: outcome.started_at.map(Time::from_timestamp),
                bytes: outcome.output.size() + line_bytes(&outcome.logs) + published_bytes(outcome),
                log_lines: outcome.logs.len(),
                ..none
            },
            Event::StepFailed { failure, logs, started_at, .. } => Self {
                error: Some(FailureHead::from_failure(failure)),
                started_at: started_at.map(Time::from_timestamp),
                bytes: line_bytes(logs),
                log_lines: logs.len(),
                ..none
            },
            Event::TimerSet { due, .. } => Self { due: Some(Time::from_timestamp(*due)), ..none },
            Event::WaitOpened { event, pattern, due, step, .. } => Self {
                signal: Some(event.clone().unwrap_or_else(|| step.to_string())),
                due: due.map(Time::from_timestamp),
                bytes: pattern.size(),
                ..none
            },
            Event::WaitResolved { by: Resolution::Signal { event, payload, .. }, .. } => {
                Self { signal: Some(event.clone()), bytes: payload.size(), ..none }
            }
            Event::WaitResolved { by: Resolution::Event { event, data }, .. } => {
                Self { signal: Some(event.topic.clone()), bytes: data.size(), ..none }
            }
            Event::SignalBuffered { event, payload, until } => Self {
                signal: Some(event.clone()),
                due: Some(Time::from_timestamp(*until)),
                bytes: payload.size(),
                ..none
            },
            Event::TurnStarted { turn, .. } | Event::TurnLost { turn } => Self { turn: Some(*turn), ..none },
            Event::TransitionApplied(applied) => {
                let comment = applied.comment.as_ref().map_or(0, String::len);
                Self { bytes: size(&applied.data) + size(&applied.set) + comment, ..none }
            }
            Event::VoteCast(vote) => Self { bytes: vote.comment.as_ref().map_or(0, String::len), ..none },
            Event::Assigned(assigned) => Self { reason: assigned.reason.as_deref().map(shorten), ..none },
            Event::ContextSet { values } => Self { bytes: values.size(), ..none },
            Event::RunPaused { reason } => Self { error: reason.as_ref().map(FailureHead::from_failure), ..none },
            Event::RunCompleted { output, .. } => Self { bytes: output.size(), ..none },
            Event::RunFailed { failure, stack, .. } => Self {
                error: Some(FailureHead::from_failure(failure)),
                bytes: stack.as_ref().map_or(0, |stack| stack.len()),
                ..none
            },
            Event::RunCancelled { reason } => Self { reason: reason.as_deref().map(shorten), ..none },
            Event::WaitResolved { by: Resolution::Timeout, .. }
            | Event::StepSkipped { .. }
            | Event::TimerFired { .. }
            | Event::RunResumed
            | Event::RunRetried => none,
        }
    }

    fn from_dispatch(dispatch: &Dispatch) -> Self {
        let of = |word: &'static str| Self { dispatch: Some(word), ..Self::default() };
        match dispatch {
            Dispatch::Task => of("task"),
            Dispatch::Instant => of("instant"),
            Dispatch::Publish => of("publish"),
            Dispatch::Delay { due } => Self { due: Some(Time::from_timestamp(*due)), ..of("delay") },
            Dispatch::Wait { event, pattern, due, .. } => Self {
                signal: Some(event.clone()),
                due: due.map(Time::from_timestamp),
                bytes: pattern.size(),
                ..of("wait")
            },
            Dispatch::Child(child) => Self {
                child: Some(child.run),
                due: child.due.map(Time::from_timestamp),
                bytes: child.input.size(),
                ..of("child")
            },
            Dispatch::Body { items } => Self { bytes: items.iter().map(Payload::size).sum(), ..of("body") },
            Dispatch::Delivery(delivery) => Self {
                child: (!delivery.is_task()).then(|| RunId::from_uuid(delivery.id.uuid())),
                bytes: delivery.config.size(),
                ..of("delivery")
            },
        }
    }
}

fn published_bytes(outcome: &Outcome) -> usize {
    outcome.published.as_ref().map_or(0, |published| published.data.size())
}

fn line_bytes(lines: &[String]) -> usize {
    lines.iter().map(String::len).sum()
}

/// A change of the run, or of one of its steps.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "of", rename_all = "camelCase")]
pub(crate) enum HeadUpdate {
    Run(RunHeadUpdate),
    Step(StepHeadUpdate),
}

impl HeadUpdate {
    fn from_update(update: Update<'_>) -> Self {
        match update {
            Update::Run(update) => Self::Run(RunHeadUpdate::from_update(&update)),
            Update::Step(update) => Self::Step(StepHeadUpdate::from_update(update)),
        }
    }
}

/// A change of the run itself.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunHeadUpdate {
    /// The entry that caused it.
    seq: u64,
    at: Time,
    #[schemars(with = "RunChangeWord")]
    change: everstep_core::story::RunChange,
    /// Why the run failed or was paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureHead>,
    /// The step that caused the failure of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    failed_step: Option<StepKey>,
    /// Steps that the function did not await before it ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    unawaited: Vec<StepKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The worker that received a turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    /// The transition, vote or assignment of a state machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<MachineHeadUpdate>,
}

/// A change of a state machine's run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MachineHeadUpdate {
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version_no: Option<u32>,
    /// The actor: a person's id, `key:…`, `run:…`, or a part of the server such as `@timer`.
    by: String,
}

impl RunHeadUpdate {
    fn from_update(update: &RunUpdate<'_>) -> Self {
        Self {
            seq: update.seq,
            at: Time::from_timestamp(update.at),
            change: update.change,
            failure: update.failure.map(FailureHead::from_failure),
            failed_step: update.failed_step.cloned(),
            unawaited: update.unawaited.to_vec(),
            reason: update.reason.map(shorten),
            worker: update.worker.map(str::to_owned),
            machine: update.machine.as_ref().map(MachineHeadUpdate::from_update),
        }
    }
}

impl MachineHeadUpdate {
    fn from_update(update: &MachineUpdate<'_>) -> Self {
        let text = |text: Option<&str>| text.map(str::to_owned);
        Self {
            action: text(update.action),
            from: text(update.from),
            to: text(update.to),
            version_no: update.version_no,
            by: update.by.to_string(),
        }
    }
}

/// A change of one step.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StepHeadUpdate {
    /// The entry that caused it.
    seq: u64,
    at: Time,
    #[schemars(with = "String")]
    step: StepKey,
    /// The node of a graph, without the iterations around it; the whole key for a step of code.
    node: String,
    /// The node's type, or the kind of a step of code; missing while it is not known.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// Counted from 1; 0 for a step that was skipped.
    attempt: u32,
    #[schemars(with = "StepWord")]
    status: &'static str,
    #[schemars(with = "StepChangeWord")]
    change: everstep_core::story::StepChange,
    #[serde(skip_serializing_if = "Option::is_none")]
    activity: Option<ActivityHead>,
    /// When the attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Time>,
    /// When the step continues without an input.
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<Time>,
    /// The handle with which the step completed; missing for the default handle.
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureHead>,
}

impl StepHeadUpdate {
    fn from_update(update: StepUpdate<'_>) -> Self {
        Self {
            seq: update.seq,
            at: Time::from_timestamp(update.at),
            step: update.step,
            node: update.node.into_owned(),
            kind: update.kind.map(Cow::into_owned),
            attempt: update.attempt,
            status: update.status.as_str(),
            change: update.change,
            activity: update.activity.map(ActivityHead::from_activity),
            since: update.since.map(Time::from_timestamp),
            due: update.due.map(Time::from_timestamp),
            handle: update.handle.map(str::to_owned),
            error: update.error.map(FailureHead::from_failure),
        }
    }
}

/// The work of a step that has begun.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "does", rename_all = "camelCase")]
pub(crate) enum ActivityHead {
    Task,
    Instant,
    Sleep,
    /// It waits for the signal `event`.
    Wait {
        event: String,
    },
    /// It waits for a run that it started.
    Child {
        #[schemars(with = "Id")]
        run: RunId,
        workflow: String,
    },
    /// Its body runs once per item.
    Body {
        items: usize,
    },
}

impl ActivityHead {
    fn from_activity(activity: Activity) -> Self {
        match activity {
            Activity::Task => Self::Task,
            Activity::Instant => Self::Instant,
            Activity::Sleep => Self::Sleep,
            Activity::Wait { event } => Self::Wait { event },
            Activity::Child { run, workflow } => Self::Child { run, workflow },
            Activity::Body { items } => Self::Body { items },
        }
    }
}

/// The kind of a change of the run.
#[derive(JsonSchema)]
#[schemars(inline)]
struct RunChangeWord(
    #[schemars(extend("enum" = [
        "started", "turnStarted", "turnLost", "moved", "voted", "assigned", "paused", "resumed", "retried",
        "completed", "failed", "cancelled",
    ]))]
    #[expect(dead_code, reason = "it exists only for its schema")]
    String,
);

/// The kind of a change of a step.
#[derive(JsonSchema)]
#[schemars(inline)]
struct StepChangeWord(
    #[schemars(extend("enum" = [
        "began", "completed", "failed", "skipped", "retries", "retryDue", "paces", "paceDue", "cancelled", "reopened",
    ]))]
    #[expect(dead_code, reason = "it exists only for its schema")]
    String,
);

/// Entries, whole or without their values.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum JournalView {
    Whole(super::entry::Entries),
    Heads(Heads),
}

/// One entry, whole or without its values.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum EntryView {
    Whole(Box<super::entry::Entry>),
    Head(Box<Head>),
}

#[cfg(test)]
mod tests;
