//! A run's turn: the period in which one worker executes the run's function, from the top.
//!
//! The order of events:
//!
//! 1. A run *needs* a turn when its function has something to do and no worker executes it: it was started, resumed or
//!    retried, its last turn was lost, or a step that the function waits for has settled.
//! 2. While the run's next item is decided, the run takes a [`Seat`] in a session. The item records the turn.
//! 3. When the item is durable, the worker receives the turn, with the journal's records of the run's steps. It must
//!    not receive it earlier: a turn that is not in the journal could not be distinguished from an older one.
//! 4. The worker reports steps. When their item is durable, it receives acknowledgements and *wakes* (steps that other
//!    inputs settled), in the order of the entries.
//! 5. The worker reports that its function only waits (*blocked*). The run then no longer uses capacity of the worker,
//!    and may park.
//! 6. The turn ends: the run ends, is paused or parks, or the worker gives the turn back or is lost.
//!
//! **Invariant**: a run that needs a worker and can continue has a turn, or is due in its lane. Otherwise no claim
//! would find it.

use std::sync::Arc;

use everstep_core::code::Report;
use everstep_core::ids::RunId;
use everstep_core::journal::{Entry, Event};
use everstep_core::run::{Reply, State};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::workflow::Workflow;

use super::message::WorkerMessage;
use super::seats::Seat;
use super::turn_end::TurnEnd;
use super::wakes::{Wakes, describe, wake};
use crate::error::Error;
use crate::read::RunSnapshot;
use crate::run::{Envelope, InFlight, Ownership, ReplyTo, Rest};

/// A report, with its run and its turn.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerReport {
    /// The worker's number of the report, which the acknowledgement repeats.
    pub n: u64,
    pub run: RunId,
    pub turn: u32,
    pub report: Report,
}

/// The turn of a run that needs a worker.
pub(crate) struct WorkerTurn {
    live: Option<LiveTurn>,
    /// Whether a worker must run the function from the top.
    is_wanted: bool,
    /// The wake time in the row of a run that this node does not own.
    due_by_row: Timestamp,
}

impl Default for WorkerTurn {
    fn default() -> Self {
        Self { live: None, is_wanted: false, due_by_row: Timestamp::NEVER }
    }
}

/// A turn while a worker holds it.
struct LiveTurn {
    seat: Seat,
    /// Whether the worker has received the turn.
    is_sent: bool,
    /// Whether the journal records the turn for this worker: it was sent once, or the worker holds it from an earlier
    /// session.
    is_begun: bool,
    /// Whether the function only waits for steps that are open in the journal.
    is_blocked: bool,
    /// The last entry that the worker has received, beside the replies to its own reports.
    sent_seq: u64,
}

impl LiveTurn {
    fn set_blocked(&mut self, is_blocked: bool) {
        if self.is_blocked != is_blocked {
            self.is_blocked = is_blocked;
            self.seat.set_blocked(is_blocked);
        }
    }

    /// Another turn or another node continues the run.
    fn revoke(&self, run: RunId) {
        self.seat.session.send(WorkerMessage::Revoked { run, turn: self.seat.turn, end: TurnEnd::Moved });
    }
}

impl WorkerTurn {
    pub(crate) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Whether a worker runs the function, and the function does not only wait.
    pub(crate) fn is_busy(&self) -> bool {
        self.live.as_ref().is_some_and(|live| !live.is_blocked)
    }

    pub(crate) fn needs_seat(&self) -> bool {
        self.live.is_none() && self.is_wanted
    }

    pub(crate) fn want_if_idle(&mut self) {
        self.is_wanted |= self.live.is_none();
    }

    /// Records a decision: whether the function can continue.
    pub(crate) fn note(&mut self, state: &State, entries: &[Entry]) {
        for entry in entries {
            match &entry.event {
                Event::TurnLost { turn } => {
                    self.live.take_if(|live| live.seat.turn == *turn);
                    self.is_wanted = true;
                }
                Event::RunStarted { .. } | Event::RunResumed | Event::RunRetried => self.is_wanted = true,
                Event::StepCompleted { .. }
                | Event::StepFailed { .. }
                | Event::TimerFired { .. }
                | Event::WaitResolved { .. } => match &mut self.live {
                    Some(live) if wake(state, entry, |_| true).is_some() => live.set_blocked(false),
                    Some(_) => {}
                    None => self.is_wanted = true,
                },
                Event::StepDispatched { .. }
                | Event::StepSkipped { .. }
                | Event::TimerSet { .. }
                | Event::WaitOpened { .. }
                | Event::SignalBuffered { .. }
                | Event::TurnStarted { .. }
                | Event::TransitionApplied(_)
                | Event::VoteCast(_)
                | Event::Assigned(_)
                | Event::ContextSet { .. }
                | Event::RunPaused { .. }
                | Event::RunCompleted { .. }
                | Event::RunFailed { .. }
                | Event::RunCancelled { .. } => {}
            }
        }
    }

    /// Drops a turn that the journal has ended. A run can be paused and resumed, or fail and be retried, in one item:
    /// its state is live before and after, but its worker may not continue.
    pub(crate) fn leave_if_over(&mut self, state: &State) {
        if let Some(live) = self.live.take_if(|live| !may_go_on(state, live.seat.turn)) {
            live.revoke(state.run);
            self.is_wanted = true;
        }
    }

    /// Takes a seat. `seq` is the last decided entry.
    pub(crate) fn take_seat(&mut self, seat: Seat, seq: u64) {
        self.is_wanted = false;
        let is_begun = seat.is_kept;
        self.live = Some(LiveTurn { seat, is_sent: false, is_begun, is_blocked: false, sent_seq: seq });
    }

    /// Takes over the turn that the run had before it was loaded again, if the worker still holds it by the journal. A
    /// claimed run without a turn needs one.
    pub(crate) fn adopt(&mut self, before: Self, state: &State, ownership: Ownership, due_by_row: Timestamp) {
        let is_live = !state.has_ended() && !state.is_paused();
        let is_owner = ownership == Ownership::Owner;
        self.live = before.live.filter(|live| {
            let is_here = is_owner && !live.seat.session.is_over();
            // A turn with that number that was not begun here belongs to another worker.
            let is_kept = is_live && is_here && live.is_begun && may_go_on(state, live.seat.turn);
            if !is_kept && live.is_sent {
                live.revoke(state.run);
            }
            is_kept
        });
        if let Some(live) = &mut self.live {
            // The whole turn is sent again, with all entries that were written since.
            live.is_sent = false;
            live.set_blocked(false);
        }
        self.is_wanted = is_owner && is_live && self.live.is_none();
        self.due_by_row = due_by_row;
    }

    /// Records that the worker no longer holds this turn, if it held it.
    pub(crate) fn give_back(&mut self, turn: u32) {
        if let Some(live) = self.live.take_if(|live| live.seat.turn == turn) {
            self.is_wanted = !live.is_blocked || !live.is_sent;
        }
    }

    /// The run leaves this node: its worker stops.
    pub(crate) fn revoke(self, run: RunId) {
        if let Some(live) = self.live {
            live.revoke(run);
        }
    }

    /// Handles the parts of a report that are not journaled. If a report of the function was rejected, the function
    /// continues with the rejection and does not wait; a function without open steps does not wait either.
    pub(crate) fn hear(
        &mut self,
        turn: u32,
        report: &Report,
        reply_to: &ReplyTo,
        has_refused: bool,
        state: &State,
        lane: &Arc<str>,
    ) {
        let Some(live) = self.live.as_mut().filter(|live| live.seat.turn == turn) else { return };
        let session = &live.seat.session;
        let is_holder = matches!(reply_to, ReplyTo::Worker(sender, _) if sender.id == session.id);
        match report {
            // Only the session that holds the turn knows the state of the function.
            Report::Blocked { .. } | Report::Declined { .. } if !is_holder => {}
            Report::Blocked { seq } => {
                let has_all = live.is_sent && *seq >= live.sent_seq && !has_refused;
                live.set_blocked(has_all && state.open().next().is_some());
            }
            Report::Declined { failure } => {
                // A draining worker gives its turns back. It receives no more runs in any case.
                if session.capacity() > 0 {
                    tracing::warn!(worker = session.worker, %lane, %failure, "a worker declined a run");
                    live.seat.workers.decline(session, lane);
                }
                self.live = None;
                self.is_wanted = true;
            }
            Report::Completed { .. }
            | Report::Failed { .. }
            | Report::Slept { .. }
            | Report::Waited { .. }
            | Report::Called { .. }
            | Report::Published { .. } => live.set_blocked(false),
            Report::Returned { .. } | Report::Threw { .. } | Report::Diverged { .. } => {}
        }
    }

    /// Whether the row of a run that this node does not own is due before its state is: then the run needs a worker.
    pub(crate) fn is_due_by_row(&self, state: &State, ownership: Ownership) -> bool {
        ownership == Ownership::Guest && self.due_by_row < state.next_due().unwrap_or(Timestamp::NEVER)
    }

    /// The state of ownership of the run after its next item; `None` if a timer decides.
    pub(crate) fn rest(&self, state: &State, ownership: Ownership, now: Timestamp) -> Option<Rest> {
        match &self.live {
            _ if state.is_paused() => Some(Rest::Parked(Timestamp::NEVER)),
            Some(live) if !live.is_blocked => Some(Rest::Active),
            // The run that has waited longest is claimed first.
            None if self.is_wanted => Some(Rest::Parked(now.min(self.due_by_row))),
            // The node that wrote the row determined whether the run needs a worker; its clock may differ from ours.
            None if self.is_due_by_row(state, ownership) => Some(Rest::Parked(self.due_by_row)),
            Some(_) | None => None,
        }
    }

    /// Adds the data of the worker.
    pub(crate) fn show(&self, snapshot: RunSnapshot) -> RunSnapshot {
        let Some(live) = &self.live else { return snapshot };
        let is_busy = snapshot.status == Status::Waiting && !live.is_blocked;
        let status = if is_busy { Status::Running } else { snapshot.status };
        RunSnapshot { status, worker: Some(live.seat.session.worker.clone()), ..snapshot }
    }

    /// Sends the worker a turn that it has not received, or takes the turn of a run that has ended, parks or is
    /// paused. A worker whose report ended the run receives only the acknowledgement.
    ///
    /// `entries` are those of the item that was written.
    pub(crate) fn send(
        &mut self,
        workflow: &Workflow,
        state: &State,
        rest: Rest,
        has_ended_itself: bool,
        entries: &[Entry],
    ) {
        let Some(live) = &mut self.live else { return };
        let (run, session, turn) = (state.run, &live.seat.session, live.seat.turn);
        if rest != Rest::Active || state.is_paused() {
            if !state.has_ended() {
                session.put(WorkerMessage::Revoked { run, turn, end: TurnEnd::of_resting(state) });
            } else if !has_ended_itself {
                session.put(WorkerMessage::Cancelled { run, turn, end: TurnEnd::of_ended(state, entries) });
            }
            self.live = None;
            self.is_wanted = false;
        } else if !live.is_sent {
            (live.is_sent, live.is_begun) = (true, true);
            live.sent_seq = state.seq;
            session.put(WorkerMessage::Turn(Box::new(describe(workflow, state, turn))));
        }
    }

    /// The wakes of a written item, for a function that continues in memory.
    pub(crate) fn wakes(&mut self, state: &State, in_flight: &InFlight) -> Option<Wakes> {
        let live = self.live.as_mut().filter(|live| live.is_sent)?;
        let session = live.seat.session.id;
        let is_here = |envelope: &Envelope| matches!(&envelope.reply_to, ReplyTo::Worker(to, _) if to.id == session);
        let are_all_here = in_flight.answered.iter().all(|(envelope, _)| is_here(envelope));
        // The reply to a report of another session goes to that session, from which the worker reads no more messages.
        let is_answered = |seq| {
            are_all_here
                || in_flight.answered.iter().any(|(envelope, _)| envelope.seq == Some(seq) && is_here(envelope))
        };
        let mut messages = Vec::new();
        for entry in &in_flight.entries {
            if let Some(step) = wake(state, entry, is_answered) {
                live.sent_seq = entry.seq;
                let (run, turn) = (state.run, live.seat.turn);
                messages.push((entry.seq, WorkerMessage::Wake { run, turn, step }));
            }
        }
        (!messages.is_empty()).then(|| Wakes { session: Arc::clone(&live.seat.session), messages })
    }
}

/// Whether the worker that holds this turn may continue the run.
fn may_go_on(state: &State, turn: u32) -> bool {
    state.code().is_some_and(|code| code.may_go_on(turn))
}

/// The reply to a worker's report.
pub(crate) fn report_reply(n: u64, seq: Option<u64>, answer: Result<Reply, Error>) -> WorkerMessage {
    match answer {
        Ok(Reply::Accepted | Reply::Buffered | Reply::Repeated | Reply::Applied(_)) => WorkerMessage::Ack { n, seq },
        Ok(Reply::Ignored(_)) => WorkerMessage::Ack { n, seq: None },
        Ok(Reply::Refused { code, message, .. }) => WorkerMessage::Refused { n, code, detail: message },
        Err(Error::RunNotFound(run)) => {
            WorkerMessage::Refused { n, code: "FENCED".into(), detail: format!("run {run} was not found") }
        }
        Err(Error::Refused(detail)) => WorkerMessage::Refused { n, code: "STORE_REFUSED".into(), detail },
        Err(_) => WorkerMessage::Later { n },
    }
}
