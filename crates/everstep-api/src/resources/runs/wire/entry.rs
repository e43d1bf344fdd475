//! Entries of a journal in the API.

use std::sync::Arc;

use everstep_core::failure::Failure;
use everstep_core::ids::{DeliveryId, NodeId, RunId, StepKey};
use everstep_core::journal::{Dispatch, Event, Outcome, Resolution, TransitionApplied};
use everstep_core::machine::AssignmentChange;
use everstep_core::payload::Payload;
use everstep_engine::JournalEntry;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::trigger::{ResolvingEvent, Trigger};
use crate::http::schema::{Id, Json, Object};
use crate::http::time::Time;

/// A page of a journal.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entries {
    pub(crate) entries: Vec<Entry>,
    /// The `after` of the next page; null if there is none.
    pub(crate) next_after: Option<u64>,
}

/// One fact.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    seq: u64,
    at: Time,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    step: Option<StepKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    /// The node that wrote it.
    #[schemars(with = "Id")]
    writer: NodeId,
    /// The idempotency key of the signal or control that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    idempotency_key: Option<Arc<str>>,
    /// The other data of the entry.
    data: Data,
}

impl Entry {
    pub(crate) fn from_journal(journal: JournalEntry) -> Self {
        let attempt = Some(journal.attempt).filter(|attempt| *attempt > 0);
        let (data, key) = match journal.entry {
            Ok(entry) => (Data::from_event(entry.event), entry.key),
            Err(error) => (Data::Unreadable { unreadable: error.to_string() }, None),
        };
        Self {
            seq: journal.seq,
            at: Time::from_timestamp(journal.at),
            event: journal.kind.name(),
            step: journal.step,
            attempt,
            writer: journal.writer,
            idempotency_key: key,
            data,
        }
    }
}

/// The data of an entry, by its event.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", untagged, rename_all_fields = "camelCase")]
enum Data {
    #[schemars(title = "RunStartedData")]
    Started {
        #[schemars(with = "Json")]
        input: Payload,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent: Option<Value>,
        /// The event that has started the run, or the first of its ancestors.
        #[serde(skip_serializing_if = "Option::is_none")]
        trigger: Option<Trigger>,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Json")]
        definition: Option<Payload>,
    },
    Dispatched(Dispatched),
    #[schemars(title = "StepCompletedData")]
    Completed {
        #[schemars(with = "Json")]
        output: Payload,
        #[serde(skip_serializing_if = "Option::is_none")]
        handle: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        logs: Vec<String>,
        /// When a worker began the attempt.
        #[serde(skip_serializing_if = "Option::is_none")]
        started_at: Option<Time>,
        /// The published event that has resolved a wait of a graph.
        #[serde(skip_serializing_if = "Option::is_none")]
        event: Option<ResolvingEvent>,
        /// The event that the step publishes: `{topic, data, id?, subject?}`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<Object>")]
        published: Option<Value>,
    },
    #[schemars(title = "StepFailedData")]
    Failed {
        error: Value,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        logs: Vec<String>,
        /// When a worker began the attempt.
        #[serde(skip_serializing_if = "Option::is_none")]
        started_at: Option<Time>,
    },
    #[schemars(title = "TimerSetData")]
    Timer {
        due: Time,
        /// The purpose of the timer: `sleep`, `retry`, `pace` (the pause between two items of a loop) or `after`.
        why: &'static str,
    },
    #[schemars(title = "ContextSetData")]
    Values {
        #[schemars(with = "Json")]
        values: Payload,
    },
    #[schemars(title = "RunPausedData")]
    Paused {
        reason: Option<Value>,
    },
    #[schemars(title = "RunCompletedData")]
    Output {
        #[schemars(with = "Json")]
        output: Payload,
        /// Steps that the function did not await before it returned.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[schemars(with = "Vec<String>")]
        unawaited: Vec<StepKey>,
    },
    #[schemars(title = "RunFailedData")]
    RunFailed {
        /// With `stack` if the function has thrown an error that has one.
        error: Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<String>")]
        failed_step: Option<StepKey>,
        /// Steps that the function did not await before it ended.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[schemars(with = "Vec<String>")]
        unawaited: Vec<StepKey>,
    },
    #[schemars(title = "RunCancelledData")]
    Cancelled {
        reason: Option<String>,
    },
    #[schemars(title = "TurnStartedData")]
    TurnStarted {
        turn: u32,
        worker: String,
    },
    #[schemars(title = "TurnLostData")]
    TurnLost {
        turn: u32,
    },
    #[schemars(title = "WaitOpenedData")]
    WaitOpened {
        /// The signal's name; the step's name if there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        event: Option<String>,
        #[serde(rename = "match")]
        #[schemars(with = "Json")]
        pattern: Payload,
        due: Option<Time>,
        /// The wait also accepts events that were published from this time on.
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Time>,
    },
    WaitResolved(Resolved),
    #[schemars(title = "SignalBufferedData")]
    SignalBuffered {
        event: String,
        #[schemars(with = "Json")]
        payload: Payload,
        /// The end of the time for which it is buffered.
        until: Time,
    },
    #[schemars(title = "TransitionAppliedData")]
    Transition {
        /// An action, or a name of the server: `@start`, `@after` or `@run`.
        action: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        to: String,
        version_no: u32,
        /// The actor: a person's id, `key:…`, `run:…`, or a part of the server such as `@timer`.
        by: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        on_behalf_of: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
        /// The data of the request, which was merged into the context.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Json")]
        data: Option<Payload>,
        /// Values that the definition has set in the context.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Json")]
        set: Option<Payload>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        assigned: Vec<String>,
        /// The votes that actions of the entered state need: `{of, need}` by action.
        #[serde(skip_serializing_if = "Option::is_none")]
        voters: Option<Value>,
        /// The votes that reached the quorum.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        votes: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        shown: Option<String>,
    },
    #[schemars(title = "VoteCastData")]
    Vote {
        action: String,
        version_no: u32,
        by: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        on_behalf_of: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        shown: Option<String>,
        is_withdrawn: bool,
    },
    #[schemars(title = "AssignedData")]
    Assigned {
        /// The persons to whom the state is assigned from now on.
        #[serde(skip_serializing_if = "Option::is_none")]
        who: Option<Vec<String>>,
        /// The voter that was replaced: `{from, to}`.
        #[serde(skip_serializing_if = "Option::is_none")]
        voter: Option<Value>,
        by: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    #[schemars(title = "NoData")]
    Nothing {},
    /// Written by a later build.
    #[schemars(title = "UnreadableData")]
    Unreadable {
        unreadable: String,
    },
}

/// How a wait ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "by", rename_all = "camelCase")]
enum Resolved {
    Signal {
        event: String,
        #[schemars(with = "Json")]
        payload: Payload,
        /// The entry that buffered the signal, if it arrived before the wait.
        #[serde(skip_serializing_if = "Option::is_none")]
        buffered: Option<u64>,
    },
    Event {
        event: ResolvingEvent,
        #[schemars(with = "Json")]
        data: Payload,
    },
    Timeout,
}

/// The work that a dispatched step starts.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum Dispatched {
    Task,
    Instant,
    /// A function publishes an event.
    Publish,
    Delay {
        due: Time,
    },
    Wait {
        event: String,
        #[serde(rename = "match")]
        #[schemars(with = "Json")]
        pattern: Payload,
        due: Option<Time>,
        /// The wait also accepts events that were published from this time on.
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Time>,
    },
    #[serde(rename_all = "camelCase")]
    Child {
        #[schemars(with = "Id")]
        run: RunId,
        workflow: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        workflow_version: Option<u32>,
        #[schemars(with = "Json")]
        input: Payload,
        waits: bool,
        due: Option<Time>,
    },
    Body {
        #[schemars(with = "Vec<Json>")]
        items: Vec<Payload>,
    },
    /// A side effect of a state machine, as it was decided. Secrets are names in its config.
    Delivery {
        #[schemars(with = "Id")]
        id: DeliveryId,
        #[serde(rename = "type")]
        type_name: String,
        #[schemars(with = "Json")]
        config: Payload,
    },
}

impl Data {
    fn from_event(event: Event) -> Self {
        match event {
            Event::RunStarted { input, cause, definition } => {
                let (parent, trigger) = cause.map(|cause| (cause.parent, cause.trigger)).unwrap_or_default();
                let parent = parent.map(|parent| json!({"run": parent.run, "step": parent.step}));
                Self::Started {
                    input,
                    parent,
                    trigger: trigger.map(|trigger| Trigger::from_core(*trigger)),
                    definition,
                }
            }
            Event::StepDispatched { dispatch, .. } => Self::Dispatched(Dispatched::from_dispatch(dispatch)),
            Event::StepCompleted { outcome, .. } => {
                let Outcome { output, handle, logs, started_at, event, published } = outcome;
                Self::Completed {
                    output,
                    handle,
                    logs,
                    started_at: started_at.map(Time::from_timestamp),
                    event: event.map(|event| ResolvingEvent::from_core(*event)),
                    published: published.map(|published| json!(published)),
                }
            }
            Event::StepFailed { failure, logs, started_at, .. } => {
                Self::Failed { error: describe(&failure), logs, started_at: started_at.map(Time::from_timestamp) }
            }
            Event::TimerSet { due, why, .. } => Self::Timer { due: Time::from_timestamp(due), why: why.as_str() },
            Event::ContextSet { values } => Self::Values { values },
            Event::TransitionApplied(applied) => Self::from_transition(*applied),
            Event::VoteCast(vote) => Self::Vote {
                action: vote.action,
                version_no: vote.version_no,
                by: vote.by.to_string(),
                on_behalf_of: vote.on_behalf_of.as_ref().map(ToString::to_string),
                comment: vote.comment,
                shown: vote.shown,
                is_withdrawn: vote.is_withdrawn,
            },
            Event::Assigned(assigned) => {
                let (who, voter) = match assigned.change {
                    AssignmentChange::Who(who) => (Some(who), None),
                    AssignmentChange::Voter { from, to } => (None, Some(json!({"from": from, "to": to}))),
                };
                Self::Assigned { who, voter, by: assigned.by.to_string(), reason: assigned.reason }
            }
            Event::RunPaused { reason } => Self::Paused { reason: reason.as_ref().map(describe) },
            Event::RunCompleted { output, unawaited } => Self::Output { output, unawaited },
            Event::RunFailed { failure, step, stack, unawaited } => {
                let mut error = describe(&failure);
                if let Some(stack) = stack {
                    error["stack"] = String::from(stack).into();
                }
                Self::RunFailed { error, failed_step: step, unawaited }
            }
            Event::RunCancelled { reason } => Self::Cancelled { reason },
            Event::TurnStarted { turn, worker } => Self::TurnStarted { turn, worker },
            Event::TurnLost { turn } => Self::TurnLost { turn },
            Event::WaitOpened { event, pattern, due, since, .. } => {
                let [due, since] = [due, since].map(|time| time.map(Time::from_timestamp));
                Self::WaitOpened { event, pattern, due, since }
            }
            Event::WaitResolved { by, .. } => Self::WaitResolved(match by {
                Resolution::Signal { event, payload, buffered } => Resolved::Signal { event, payload, buffered },
                Resolution::Event { event, data } => Resolved::Event { event: ResolvingEvent::from_core(event), data },
                Resolution::Timeout => Resolved::Timeout,
            }),
            Event::SignalBuffered { event, payload, until } => {
                Self::SignalBuffered { event, payload, until: Time::from_timestamp(until) }
            }
            Event::StepSkipped { .. } | Event::TimerFired { .. } | Event::RunResumed | Event::RunRetried => {
                Self::Nothing {}
            }
        }
    }
}

impl Data {
    fn from_transition(applied: TransitionApplied) -> Self {
        Self::Transition {
            action: applied.action,
            from: applied.from,
            to: applied.to,
            version_no: applied.version_no,
            by: applied.by.to_string(),
            on_behalf_of: applied.on_behalf_of.as_ref().map(ToString::to_string),
            comment: applied.comment,
            data: applied.data,
            set: applied.set,
            assigned: applied.assigned,
            voters: (!applied.voters.is_empty()).then(|| json!(applied.voters)),
            votes: applied.votes.iter().map(ToString::to_string).collect(),
            shown: applied.shown,
        }
    }
}

impl Dispatched {
    fn from_dispatch(dispatch: Dispatch) -> Self {
        match dispatch {
            Dispatch::Task => Self::Task,
            Dispatch::Instant => Self::Instant,
            Dispatch::Publish => Self::Publish,
            Dispatch::Delay { due } => Self::Delay { due: Time::from_timestamp(due) },
            Dispatch::Wait { event, pattern, due, since } => {
                let [due, since] = [due, since].map(|time| time.map(Time::from_timestamp));
                Self::Wait { event, pattern, due, since }
            }
            Dispatch::Child(child) => Self::Child {
                run: child.run,
                workflow: child.workflow.clone(),
                workflow_version: child.version,
                input: child.input.clone(),
                waits: child.waits,
                due: child.due.map(Time::from_timestamp),
            },
            Dispatch::Body { items } => Self::Body { items },
            Dispatch::Delivery(delivery) => {
                Self::Delivery { id: delivery.id, type_name: delivery.kind.clone(), config: delivery.config.clone() }
            }
        }
    }
}

fn describe(failure: &Failure) -> Value {
    json!({"code": failure.code, "message": failure.message, "retryable": failure.retryable})
}
