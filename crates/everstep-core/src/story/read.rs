//! Reads an entry as an update.

use std::borrow::Cow;

use serde_json::json;

use super::step::Activity;
use super::update::{MachineUpdate, RunChange, RunUpdate, StepChange, StepUpdate, Update};
use crate::journal::{Dispatch, Entry, Event, Resolution, TimerPurpose, TransitionApplied};
use crate::payload::Payload;
use crate::status::StepStatus;
use crate::time::Timestamp;

/// The known facts about the step of an entry before the entry is applied.
#[derive(Clone, Debug, Default)]
pub struct StepContext<'e> {
    pub node: Cow<'e, str>,
    pub kind: Option<Cow<'e, str>>,
    /// When the attempt of the entry began.
    pub since: Option<Timestamp>,
    /// The end of a sleep.
    pub due: Option<Timestamp>,
    /// The purpose of the step's timer, which only the entry that sets it contains.
    pub timer: Option<TimerPurpose>,
}

/// Reads an entry. None for an entry that changes neither a step nor the status of the run.
pub fn read<'e>(entry: &'e Entry, context: StepContext<'e>) -> Option<Update<'e>> {
    let timer = context.timer;
    let step = StepReader { entry, context };
    Some(match &entry.event {
        Event::RunStarted { .. } => run(entry, RunChange::Started),
        Event::StepDispatched { dispatch, .. } => step.dispatched(dispatch),
        Event::StepCompleted { outcome, .. } => {
            let since = outcome.started_at;
            step.update(StepChange::Completed, StepStatus::Completed, |update| StepUpdate {
                since: update.since.or(since),
                output: Some(Cow::Borrowed(&outcome.output)),
                handle: outcome.handle.as_deref(),
                logs: &outcome.logs,
                event: outcome.event.as_deref(),
                ..update
            })
        }
        Event::StepFailed { failure, logs, started_at, .. } => {
            step.update(StepChange::Failed, StepStatus::Failed, |update| StepUpdate {
                since: update.since.or(*started_at),
                error: Some(failure),
                logs,
                ..update
            })
        }
        Event::StepSkipped { .. } => step.update(StepChange::Skipped, StepStatus::Skipped, |update| update),
        Event::TimerSet { due, why, .. } => match why {
            TimerPurpose::Sleep => step.began(Activity::Sleep, Some(*due)),
            TimerPurpose::Retry => {
                step.update(StepChange::Retries, StepStatus::Waiting, |update| StepUpdate { due: Some(*due), ..update })
            }
            TimerPurpose::Pace => {
                step.update(StepChange::Paces, StepStatus::Running, |update| StepUpdate { due: Some(*due), ..update })
            }
            TimerPurpose::After => step.began(Activity::Sleep, Some(*due)),
        },
        Event::TimerFired { .. } => match timer? {
            TimerPurpose::Sleep => step.slept(),
            TimerPurpose::Retry => step.update(StepChange::RetryDue, StepStatus::Running, |update| update),
            TimerPurpose::Pace => step.update(StepChange::PaceDue, StepStatus::Running, |update| update),
            TimerPurpose::After => step.update(StepChange::Completed, StepStatus::Completed, |update| update),
        },
        Event::WaitOpened { step: key, event, due, .. } => {
            let event = event.clone().unwrap_or_else(|| key.to_string());
            step.began(Activity::Wait { event }, *due)
        }
        Event::WaitResolved { by, .. } => step.resolved(by),
        Event::TurnStarted { worker, .. } => {
            Update::Run(RunUpdate { worker: Some(worker), ..run_update(entry, RunChange::TurnStarted) })
        }
        Event::TurnLost { .. } => run(entry, RunChange::TurnLost),
        Event::RunPaused { reason } => {
            Update::Run(RunUpdate { failure: reason.as_ref(), ..run_update(entry, RunChange::Paused) })
        }
        Event::RunResumed => run(entry, RunChange::Resumed),
        Event::RunRetried => run(entry, RunChange::Retried),
        Event::RunCompleted { output, unawaited } => {
            Update::Run(RunUpdate { output: Some(output), unawaited, ..run_update(entry, RunChange::Completed) })
        }
        Event::RunFailed { failure, step, stack, unawaited } => Update::Run(RunUpdate {
            failure: Some(failure),
            failed_step: step.as_ref(),
            stack: stack.as_deref(),
            unawaited,
            ..run_update(entry, RunChange::Failed)
        }),
        Event::RunCancelled { reason } => {
            Update::Run(RunUpdate { reason: reason.as_deref(), ..run_update(entry, RunChange::Cancelled) })
        }
        Event::TransitionApplied(applied) => {
            let TransitionApplied { action, from, to, version_no, by, .. } = &**applied;
            let (action, from, to, version_no) =
                (Some(action.as_str()), from.as_deref(), Some(to.as_str()), *version_no);
            machine(entry, RunChange::Moved, MachineUpdate { action, from, to, version_no: Some(version_no), by })
        }
        Event::VoteCast(vote) => {
            let (action, version_no) = (Some(vote.action.as_str()), Some(vote.version_no));
            machine(entry, RunChange::Voted, MachineUpdate { action, from: None, to: None, version_no, by: &vote.by })
        }
        Event::Assigned(assigned) => {
            let update = MachineUpdate { action: None, from: None, to: None, version_no: None, by: &assigned.by };
            machine(entry, RunChange::Assigned, update)
        }
        Event::ContextSet { .. } | Event::SignalBuffered { .. } => return None,
    })
}

fn run(entry: &Entry, change: RunChange) -> Update<'_> {
    Update::Run(run_update(entry, change))
}

fn machine<'e>(entry: &'e Entry, change: RunChange, update: MachineUpdate<'e>) -> Update<'e> {
    Update::Run(RunUpdate { machine: Some(update), ..run_update(entry, change) })
}

fn run_update(entry: &Entry, change: RunChange) -> RunUpdate<'_> {
    RunUpdate {
        seq: entry.seq,
        at: entry.at,
        change,
        output: None,
        failure: None,
        failed_step: None,
        stack: None,
        unawaited: &[],
        reason: None,
        worker: None,
        machine: None,
    }
}

/// An entry about a step, with the known facts about the step.
struct StepReader<'e> {
    entry: &'e Entry,
    context: StepContext<'e>,
}

impl<'e> StepReader<'e> {
    /// An update with the common fields; `more` sets the others.
    fn update(
        self,
        change: StepChange,
        status: StepStatus,
        more: impl FnOnce(StepUpdate<'e>) -> StepUpdate<'e>,
    ) -> Update<'e> {
        let Self { entry, context } = self;
        let (step, attempt) = entry.event.step().expect("the entry is about a step");
        Update::Step(more(StepUpdate {
            seq: entry.seq,
            at: entry.at,
            step: step.clone(),
            node: context.node,
            kind: context.kind,
            attempt,
            status,
            change,
            activity: None,
            since: context.since,
            due: None,
            output: None,
            handle: None,
            error: None,
            logs: &[],
            event: None,
        }))
    }

    fn dispatched(self, dispatch: &Dispatch) -> Update<'e> {
        match dispatch {
            Dispatch::Task => self.began(Activity::Task, None),
            Dispatch::Instant | Dispatch::Publish => self.began(Activity::Instant, None),
            Dispatch::Delay { due } => self.began(Activity::Sleep, Some(*due)),
            Dispatch::Wait { event, due, .. } => self.began(Activity::Wait { event: event.clone() }, *due),
            Dispatch::Child(child) => {
                self.began(Activity::Child { run: child.run, workflow: child.workflow.clone() }, child.due)
            }
            Dispatch::Body { items } => self.began(Activity::Body { items: items.len() }, None),
            Dispatch::Delivery(delivery) => match delivery.child() {
                Some(child) => self.began(Activity::Child { run: child.run, workflow: child.workflow }, None),
                None => self.began(Activity::Task, None),
            },
        }
    }

    fn began(self, activity: Activity, due: Option<Timestamp>) -> Update<'e> {
        let status = match activity {
            Activity::Task | Activity::Instant | Activity::Body { .. } => StepStatus::Running,
            Activity::Sleep | Activity::Wait { .. } | Activity::Child { .. } => StepStatus::Waiting,
        };
        let at = self.entry.at;
        self.update(StepChange::Began, status, |update| StepUpdate {
            since: Some(at),
            due,
            activity: Some(activity),
            ..update
        })
    }

    /// The sleep of a code workflow has ended.
    fn slept(self) -> Update<'e> {
        let due = self.context.due;
        let output = due.map(|due| Cow::Owned(Payload::from(json!({"slept_until": format!("{due:.6}")}))));
        self.update(StepChange::Completed, StepStatus::Completed, |update| StepUpdate { output, ..update })
    }

    /// The wait of a code workflow has ended.
    fn resolved(self, by: &'e Resolution) -> Update<'e> {
        let (output, handle, event) = match by {
            Resolution::Signal { payload, .. } => (Cow::Borrowed(payload), None, None),
            Resolution::Event { event, data } => (Cow::Borrowed(data), None, Some(event)),
            Resolution::Timeout => (Cow::Owned(Payload::from(json!({"timeout": true}))), Some("timeout"), None),
        };
        self.update(StepChange::Completed, StepStatus::Completed, |update| StepUpdate {
            output: Some(output),
            handle,
            event,
            ..update
        })
    }
}
