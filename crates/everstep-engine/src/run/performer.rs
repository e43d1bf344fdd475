//! The performer of a run's steps. All differences between the two kinds are in this file.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::code::Report;
use everstep_core::ids::{RunId, StepKey};
use everstep_core::journal::Entry;
use everstep_core::meter::Meter;
use everstep_core::run::decide::{self, Decision};
use everstep_core::run::{Cx, Input, OpenActivity, task};
use everstep_core::time::Timestamp;
use everstep_handlers::Task;

use super::active::ActiveRun;
use super::decide::Decided;
use super::in_flight::{InFlight, Rest};
use super::mailbox::{Envelope, ReplyTo};
use super::ownership::Ownership;
use crate::read::RunSnapshot;
use crate::shard::Services;
use crate::tasks::{Job, JobReply, Tasks};
use crate::workers::{Seat, TurnEnd, WorkerTurn};

pub(crate) enum Performer {
    /// Handlers of this server perform the run's tasks.
    Server(Tasks),
    /// A worker runs the workflow's function, one turn at a time.
    Worker(WorkerTurn),
}

impl Default for Performer {
    fn default() -> Self {
        Self::Server(Tasks::default())
    }
}

/// A run needs a worker, and no session of its lane has a free seat.
pub(crate) struct NoSeat;

impl Performer {
    /// The performer of a run of a lane: runs that the server performs have the empty lane.
    pub(super) fn new(lane: &str) -> Self {
        if lane.is_empty() { Self::Server(Tasks::default()) } else { Self::Worker(WorkerTurn::default()) }
    }

    /// Whether handlers perform tasks of the run now.
    fn has_tasks(&self) -> bool {
        match self {
            Self::Server(tasks) => !tasks.is_empty(),
            Self::Worker(_) => false,
        }
    }

    /// Whether a worker must be found for the run.
    pub(super) fn wants_turn(&self) -> bool {
        match self {
            Self::Server(_) => false,
            Self::Worker(turn) => turn.is_wanted(),
        }
    }

    /// Whether a worker runs the function, and the function does not only wait.
    pub(super) fn is_busy(&self) -> bool {
        match self {
            Self::Server(_) => false,
            Self::Worker(turn) => turn.is_busy(),
        }
    }

    /// Records that the worker no longer holds this turn.
    pub(crate) fn give_back(&mut self, turn: u32) {
        match self {
            Self::Server(_) => {}
            Self::Worker(worker) => worker.give_back(turn),
        }
    }

    /// The run leaves this node without having ended: its tasks are aborted, its worker stops.
    pub(crate) fn abandon(self, run: RunId) {
        match self {
            Self::Server(tasks) => tasks.abort(),
            Self::Worker(turn) => turn.revoke(run),
        }
    }

    /// This node stops: tasks are aborted. Workers keep their turns and take them to another node.
    pub(crate) fn abort(self) {
        match self {
            Self::Server(tasks) => tasks.abort(),
            Self::Worker(_) => {}
        }
    }
}

impl ActiveRun {
    /// Takes over the performer of the run before it was loaded again. `due_by_row` is the wake time of its row.
    pub(super) fn adopt_performer(&mut self, before: Performer, due_by_row: Timestamp) {
        match (&mut self.performer, before) {
            (Performer::Server(tasks), Performer::Server(before)) => {
                *tasks = before;
                tasks.keep_open(&self.state);
            }
            (Performer::Worker(turn), before) => {
                let before = match before {
                    Performer::Server(_) => WorkerTurn::default(),
                    Performer::Worker(before) => before,
                };
                turn.adopt(before, &self.state, self.ownership, due_by_row);
            }
            // The workflow of a run does not change.
            (Performer::Server(_), Performer::Worker(before)) => before.revoke(self.state.run),
        }
    }

    /// Finds a seat for a run that starts; none is needed if the server performs it.
    pub(crate) fn first_seat(&self, services: &Services) -> Result<Option<Seat>, NoSeat> {
        match &self.performer {
            Performer::Server(_) => Ok(None),
            Performer::Worker(_) => {
                let code = self.state.code().ok_or(NoSeat)?;
                services.workers.seat_new_run(&self.lane, self.state.run, code).map(Some).ok_or(NoSeat)
            }
        }
    }

    /// Records the decision, and finds a worker if the run needs one. The turn's entry is added to the decision.
    pub(super) fn seek_worker(&mut self, decided: &mut Decided, now: Timestamp, services: &Services) {
        if self.is_pending() {
            return;
        }
        let Performer::Worker(turn) = &mut self.performer else { return };
        turn.note(&self.state, &decided.entries);
        if self.state.has_ended() || self.state.is_paused() {
            return;
        }
        turn.leave_if_over(&self.state);
        if !turn.needs_seat() || services.shared.is_stopping() || !self.has_place(services) {
            return;
        }
        let Some(code) = self.state.code() else { return };
        let Some(seat) = services.workers.seat(&self.lane, self.state.run, code) else { return };
        self.take_seat(seat, decided, services.cx(now, &Meter::new()));
    }

    /// Assigns the run to a worker, in the item that is being made.
    pub(crate) fn take_seat(&mut self, seat: Seat, decided: &mut Decided, cx: Cx<'_>) {
        let Performer::Worker(turn) = &mut self.performer else { return };
        if !seat.is_kept {
            let input = Input::BeginTurn { worker: seat.session.worker.clone() };
            let decision = decide::decide(&self.workflow, &mut self.state, input, None, cx);
            let Decision { entries, settled, .. } = decision;
            decided.entries.extend(entries);
            decided.settled.extend(settled);
        }
        turn.take_seat(seat, self.state.seq);
    }

    /// A task has reported its result.
    pub(super) fn finish_task(&mut self, step: &StepKey, attempt: u32) {
        match &mut self.performer {
            Performer::Server(tasks) => tasks.finish(step, attempt),
            Performer::Worker(_) => {}
        }
    }

    /// Handles the parts of a worker's report that are not journaled.
    pub(super) fn hear(&mut self, turn: u32, report: &Report, reply_to: &ReplyTo, has_refused: bool) {
        match &mut self.performer {
            Performer::Server(_) => {}
            Performer::Worker(worker) => worker.hear(turn, report, reply_to, has_refused, &self.state, &self.lane),
        }
    }

    /// A turn is lost. False if the journal must record the loss: a function that only waited loses no work.
    pub(super) fn lose_unused_turn(&mut self, turn: u32) -> bool {
        match &mut self.performer {
            Performer::Server(_) => true,
            Performer::Worker(worker) => {
                let is_unused = !worker.is_busy();
                if is_unused {
                    worker.give_back(turn);
                }
                is_unused
            }
        }
    }

    /// The entry that a report repeats, if the journal contains its step.
    pub(super) fn reported_seq(&self, input: &Input) -> Option<u64> {
        let step = input.report().and_then(Report::step)?;
        Some(self.state.code()?.step(step)?.seq)
    }

    /// Whether tasks keep the run active. While a run is paused its lost tasks stay lost: only those that handlers
    /// perform now keep it in memory.
    pub(super) fn has_tasks(&self) -> bool {
        if self.state.is_paused() { self.performer.has_tasks() } else { self.state.has_open_tasks() }
    }

    /// The state of ownership that the performer demands after the run's next item; `None` if a timer decides.
    pub(super) fn performer_rest(&self, now: Timestamp) -> Option<Rest> {
        match &self.performer {
            Performer::Server(_) => None,
            Performer::Worker(turn) => turn.rest(&self.state, self.ownership, now),
        }
    }

    /// The ownership changes with the item that was written.
    pub(super) fn set_ownership(&mut self, ownership: Ownership) {
        match &mut self.performer {
            Performer::Server(tasks) => tasks.keep_open(&self.state),
            Performer::Worker(turn) => {
                // The run is no longer due in its lane: this node must find a worker for it.
                let was_due = turn.is_due_by_row(&self.state, self.ownership);
                if ownership == Ownership::Owner && was_due {
                    turn.want_if_idle();
                }
            }
        }
        self.ownership = ownership;
    }

    /// Tasks that are open in the journal and that no handler performs are lost: dispatched before a crash, or while
    /// the run was paused or without an owner. A task whose result waits in the mailbox is not lost, nor is a task that
    /// is about to be dispatched.
    pub(super) fn find_lost_tasks(&mut self, in_flight: Option<&InFlight>) {
        let Performer::Server(tasks) = &self.performer else { return };
        let reported = self.mailbox.reported_tasks();
        let fresh = in_flight.map(InFlight::fresh_tasks).unwrap_or_default();
        let lost: Vec<_> = self
            .state
            .open()
            .filter(|open| open.activity == OpenActivity::Task && !tasks.has(open.step, open.attempt))
            .filter(|open| !reported.contains(&(open.step, open.attempt)))
            .filter(|open| !fresh.contains(&(open.step, open.attempt)))
            .map(|open| Envelope::new(Input::TaskLost { step: open.step.clone(), attempt: open.attempt }))
            .collect();
        self.mailbox.extend(lost);
    }

    /// Passes committed tasks to their handlers.
    pub(super) fn dispatch(&mut self, dispatched: &[(StepKey, u32)], services: &Services) {
        let Performer::Server(tasks) = &mut self.performer else { return };
        if services.shared.is_stopping() {
            return;
        }
        let meter = Meter::new();
        for (step, attempt) in dispatched {
            if self.state.has_ended() || !self.state.has_open_task(step, *attempt) {
                continue;
            }
            // It is lost, and dispatched again when the run is resumed.
            if self.state.is_paused() && self.state.is_delivery(step) {
                continue;
            }
            let spec = match task::describe(&self.workflow, &self.state, step, services.evaluate(), &meter) {
                Ok(spec) => spec,
                Err(failure) => {
                    let (step, attempt) = (step.clone(), *attempt);
                    let input = Input::Result { step, attempt, result: Err(failure), logs: Vec::new() };
                    self.mailbox.push(Envelope::new(input));
                    continue;
                }
            };
            let abort = tasks.begin(step.clone(), *attempt);
            let task = Task {
                workspace: self.workspace,
                run: self.state.run,
                step: step.clone(),
                attempt: *attempt,
                kind: spec.kind,
                config: spec.config,
                secrets: spec.secrets,
                written: spec.written,
                context: spec.context,
                timeout: spec.timeout.unwrap_or(Duration::ZERO),
                actor: Arc::clone(&self.workflow.publisher),
            };
            let job = Job { task, abort, reply: JobReply::Shard(services.sender().clone()) };
            services.dispatcher.submit(Box::new(job));
        }
    }

    /// Replies to the inputs of an item, and wakes a function that continues in memory.
    pub(super) fn answer(&mut self, in_flight: &mut InFlight) {
        let wakes = match &mut self.performer {
            Performer::Server(_) => None,
            Performer::Worker(turn) => turn.wakes(&self.state, in_flight),
        };
        let answered = std::mem::take(&mut in_flight.answered);
        match wakes {
            Some(wakes) => wakes.send(answered, &in_flight.entries),
            None => answered.into_iter().for_each(|(envelope, reply)| envelope.answer(Ok(reply))),
        }
    }

    /// Sends a worker its new turn, or takes the turn of a run that has ended, parks or is paused.
    /// `entries` are those of the item that was written.
    pub(super) fn send_turn(&mut self, rest: Rest, has_ended_itself: bool, entries: &[Entry], services: &Services) {
        let Performer::Worker(turn) = &mut self.performer else { return };
        if turn.is_live() {
            turn.send(&self.workflow, &self.state, rest, has_ended_itself, entries);
        } else if let Some(code) = self.state.code().filter(|_| self.state.has_ended()) {
            // A worker that held the turn when the run was paused may still perform steps that it had begun.
            let end = || TurnEnd::of_ended(&self.state, entries);
            services.workers.cancel_ended(&self.lane, self.state.run, code.turn, code.is_revoked(), end);
        }
    }

    /// The activity of the run. The journal does not contain whether a worker runs the function.
    pub(crate) fn snapshot(&self) -> RunSnapshot {
        let snapshot = RunSnapshot::from_state(&self.workflow, &self.state);
        match &self.performer {
            Performer::Server(_) => snapshot,
            Performer::Worker(turn) => turn.show(snapshot),
        }
    }

    /// Records that a leaving worker gives a turn back.
    pub(crate) fn give_back(&mut self, turn: u32) {
        self.performer.give_back(turn);
    }
}
