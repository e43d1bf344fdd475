//! The turns of the runs of a shard: who has them, and what they are told.
//!
//! **Invariant**: a run of code that can go on is at a worker, or due in its lane. Nobody else would find it.

use std::collections::VecDeque;
use std::sync::Arc;

use everstep_core::code::{End, Report, Step, StepKind};
use everstep_core::evaluate::Evaluate;
use everstep_core::ids::{NodeId, RunId, StepKey};
use everstep_core::journal::{Entry, Event};
use everstep_core::run::decide::{self, Decision};
use everstep_core::run::{Cx, Input, Reply, State};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::workflow::Workflow;

use super::message::{StepOutcome, StepRecord, Turn, WorkerMessage};
use super::seats::{Seat, Workers};
use super::session::Session;
use crate::error::Error;
use crate::look::Look;
use crate::message::{Mail, Respond};
use crate::peers::RunInput;
use crate::run::active::{Becomes, Decided, Flight, Held, Slot, Tenure};
use crate::shard::Shard;

/// A run's turn, while a worker has it.
pub(crate) struct AtWorker {
    pub(crate) seat: Seat,
    /// Whether the worker was told that it has the turn.
    pub(crate) is_told: bool,
    /// Whether the journal has the turn as this worker's: it was told of it once, or brought it along.
    is_begun: bool,
    /// Whether the function does nothing but wait for what the journal knows.
    pub(crate) is_blocked: bool,
    /// The last entry that the worker was told, beside the answers to its own reports.
    pub(crate) told: u64,
}

impl AtWorker {
    fn set_blocked(&mut self, is_blocked: bool) {
        if self.is_blocked != is_blocked {
            self.is_blocked = is_blocked;
            self.seat.set_blocked(is_blocked);
        }
    }
}

/// What is new to a function that goes on in memory.
struct Wakes {
    session: Arc<Session>,
    /// By their entries.
    letters: Vec<(u64, WorkerMessage)>,
}

/// A report with what it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerReport {
    pub n: u64,
    pub run: RunId,
    pub turn: u32,
    pub report: Report,
}

impl Shard {
    /// Takes the reports of one message: all of a run's are decided together.
    pub(crate) fn reported(&mut self, session: &Arc<Session>, reports: Vec<WorkerReport>) {
        let mut runs: Vec<RunId> = Vec::new();
        for WorkerReport { n, run, turn, report } in reports {
            let input = Input::Report { turn, report: Box::new(report) };
            let respond = Respond::Worker(Arc::clone(session), n);
            let mail = Mail { respond, workspace: Some(session.workspace), ..Mail::of(input) };
            match self.runs.get_mut(&run) {
                Some(Slot::Held(held)) => {
                    held.mailbox.push_back(mail);
                    if runs.last() != Some(&run) {
                        runs.push(run);
                    }
                }
                _ => self.deliver(run, mail),
            }
        }
        for run in runs {
            self.advance(run);
        }
    }

    /// Finds a worker for a run that needs one. What it takes is decided beside the rest.
    pub(crate) fn seek_turn(&mut self, run: RunId, decided: &mut Decided, now: Timestamp) {
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        if !held.workflow.needs_worker() {
            return;
        }
        held.note(&decided.entries);
        let is_live = !held.state.has_ended() && !held.state.is_paused();
        if is_live {
            held.leave_turn_that_is_over();
        }
        if !is_live || held.at_worker.is_some() || !held.wants_turn || self.shared.is_stopping() {
            return;
        }
        let Some(code) = held.state.code() else { return };
        let Some(seat) = self.workers.seat(&held.lane, run, code) else { return };
        held.take_seat(seat, decided, now, &*self.world.evaluate);
    }

    /// Answers the inputs of an item, and tells a function that goes on in memory what is new: in the order of the
    /// entries, for a message may end between any two letters, and results reach the function as they come.
    ///
    /// What an input has brought about is told before its answer: an output that cannot be kept is a failure, and the
    /// function is to see nothing else.
    pub(crate) fn answer(&mut self, run: RunId, flight: &mut Flight) {
        let wakes = self.wakes(run, flight);
        let answered = std::mem::take(&mut flight.answered);
        let Some(Wakes { session, letters }) = wakes else {
            return answered.into_iter().for_each(|(mail, reply)| mail.answer(Ok(reply)));
        };
        // Where the entries of each input begin; one that is a repetition has none.
        let mut begins = VecDeque::new();
        let mut last = flight.entries.first().map_or(0, |entry| entry.seq - 1);
        for (mail, _) in &answered {
            if let Some(seq) = mail.seq.filter(|seq| *seq > last) {
                last = seq;
                begins.push_back(seq);
            }
        }
        let mut wakes = letters.into_iter().peekable();
        for (mail, reply) in answered {
            begins.pop_front_if(|seq| Some(*seq) == mail.seq);
            let end = begins.front().copied().unwrap_or(u64::MAX);
            while let Some((_, wake)) = wakes.next_if(|(seq, _)| *seq < end) {
                session.put(wake);
            }
            mail.answer(Ok(reply));
        }
        wakes.for_each(|(_, wake)| session.put(wake));
    }

    fn wakes(&mut self, run: RunId, flight: &Flight) -> Option<Wakes> {
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return None };
        let at_worker = held.at_worker.as_mut().filter(|at| at.is_told)?;
        let session = at_worker.seat.session.id;
        let is_here = |mail: &Mail| matches!(&mail.respond, Respond::Worker(asked, _) if asked.id == session);
        let are_all_here = flight.answered.iter().all(|(mail, _)| is_here(mail));
        // What the worker has reported in another session is answered there, where it does not listen any more.
        let is_answered =
            |seq| are_all_here || flight.answered.iter().any(|(mail, _)| mail.seq == Some(seq) && is_here(mail));
        let mut letters = Vec::new();
        for entry in &flight.entries {
            if let Some(step) = wake(&held.state, entry, is_answered) {
                at_worker.told = entry.seq;
                let turn = at_worker.seat.turn;
                letters.push((entry.seq, WorkerMessage::Wake { run, turn, step }));
            }
        }
        (!letters.is_empty()).then(|| Wakes { session: Arc::clone(&at_worker.seat.session), letters })
    }

    /// Gives a worker a turn that it does not know of, or takes the turn of a run that is over, parked or paused.
    /// Whoever ended the run itself is told by the answer to its report.
    pub(crate) fn tell_turn(&mut self, run: RunId, becomes: Becomes, has_ended_itself: bool) {
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        let Some(at_worker) = &mut held.at_worker else {
            if let Some(code) = held.state.code().filter(|_| held.state.has_ended()) {
                // Whoever had the turn when the run was paused may still be performing what it had begun.
                self.workers.cancelled(&held.lane, run, code.turn, code.is_revoked());
            }
            return;
        };
        let (session, turn) = (&at_worker.seat.session, at_worker.seat.turn);
        if becomes != Becomes::Owned || held.state.is_paused() {
            if !held.state.has_ended() {
                session.put(WorkerMessage::Revoked { run, turn });
            } else if !has_ended_itself {
                session.put(WorkerMessage::Cancelled { run, turn });
            }
            held.at_worker = None;
            held.wants_turn = false;
        } else if !at_worker.is_told {
            (at_worker.is_told, at_worker.is_begun) = (true, true);
            at_worker.told = held.state.seq;
            session.put(WorkerMessage::Turn(Box::new(describe(run, &held.workflow, &held.state, turn))));
        }
    }

    /// A worker that leaves gives a turn back.
    pub(crate) fn turn_back(&mut self, run: RunId, turn: u32) {
        match self.runs.get_mut(&run) {
            Some(Slot::Held(held)) => {
                held.drop_turn(turn);
                self.advance(run);
            }
            Some(Slot::Loading(loading)) => _ = loading.at_worker.take_if(|at| at.seat.turn == turn),
            None => {}
        }
    }

    /// The owner of a run is another node: has it decide reports, one after the other, and answers the worker.
    pub(crate) fn pass_on(&self, run: RunId, mails: Vec<Mail>, owner: NodeId) {
        if mails.is_empty() {
            return;
        }
        let peer = self.shared.peer(owner);
        let world = self.world.clone();
        self.world.spawn.spawn(Box::pin(async move {
            let mut is_lost = false;
            for mail in mails {
                let Mail { input, respond, workspace, .. } = mail;
                let (Respond::Worker(session, n), Some(workspace)) = (respond, workspace) else { continue };
                let answer = match peer.as_ref().filter(|_| !is_lost) {
                    Some(peer) => {
                        let delivery = RunInput { workspace, run, input, expected: None, key: None };
                        world.peers.send(peer, delivery).await
                    }
                    None => Err(Error::Unreachable(owner)),
                };
                // What comes after an unanswered one must not overtake it.
                is_lost |= answer.is_err();
                Workers::say(&session, answer_of(n, None, answer));
            }
        }));
    }

    /// A run that is not here any more is not at its worker either.
    pub(crate) fn revoke(at_worker: Option<AtWorker>, run: RunId) {
        if let Some(at_worker) = at_worker {
            let turn = at_worker.seat.turn;
            Workers::say(&at_worker.seat.session, WorkerMessage::Revoked { run, turn });
        }
    }
}

impl Held {
    /// Sees what was decided: whether the function has something to go on with.
    fn note(&mut self, entries: &[Entry]) {
        for entry in entries {
            match &entry.event {
                Event::TurnLost { turn } => {
                    if self.at_worker.as_ref().is_some_and(|at| at.seat.turn == *turn) {
                        self.at_worker = None;
                    }
                    self.wants_turn = true;
                }
                Event::RunStarted { .. } | Event::RunResumed | Event::RunRetried => self.wants_turn = true,
                // The function has something to go on with, wherever it is.
                Event::StepCompleted { .. }
                | Event::StepFailed { .. }
                | Event::TimerFired { .. }
                | Event::WaitResolved { .. } => match &mut self.at_worker {
                    Some(at_worker) if wake(&self.state, entry, |_| true).is_some() => at_worker.set_blocked(false),
                    Some(_) => {}
                    None => self.wants_turn = true,
                },
                _ => {}
            }
        }
    }

    /// Where the run stands. A function that is under way is more than the journal knows of.
    pub(crate) fn look(&self) -> Look {
        let look = Look::of(&self.state);
        let Some(at_worker) = &self.at_worker else { return look };
        let is_busy = look.status == Status::Waiting && !at_worker.is_blocked;
        let status = if is_busy { Status::Running } else { look.status };
        Look { status, worker: Some(at_worker.seat.session.worker.clone()), ..look }
    }

    /// Gives the run to a worker, in the item that is being made.
    pub(crate) fn take_seat(&mut self, seat: Seat, decided: &mut Decided, now: Timestamp, evaluate: &dyn Evaluate) {
        if !seat.is_kept {
            let input = Input::BeginTurn { worker: seat.session.worker.clone() };
            let decision = decide::decide(&self.workflow, &mut self.state, input, None, Cx { now, evaluate });
            let Decision { entries, since, .. } = decision;
            decided.entries.extend(entries);
            decided.since.extend(since);
        }
        self.wants_turn = false;
        let is_begun = seat.is_kept;
        self.at_worker = Some(AtWorker { seat, is_told: false, is_begun, is_blocked: false, told: self.state.seq });
    }

    /// A run that was read anew: the worker has its turn still, if the journal says so. One that was claimed needs one.
    pub(crate) fn keep_turn(&mut self, at_worker: Option<AtWorker>) {
        let is_live = !self.state.has_ended() && !self.state.is_paused();
        let is_owned = self.tenure == Tenure::Owned;
        self.at_worker = at_worker.filter(|at| {
            let is_here = is_owned && !at.seat.session.is_over();
            // A turn of that number that was not begun here is somebody else's.
            let is_kept = is_live && is_here && at.is_begun && self.may_go_on(at.seat.turn);
            if !is_kept && at.is_told {
                let (run, turn) = (self.state.run, at.seat.turn);
                Workers::say(&at.seat.session, WorkerMessage::Revoked { run, turn });
            }
            is_kept
        });
        if let Some(at_worker) = &mut self.at_worker {
            // What was written since is told with the whole turn.
            at_worker.is_told = false;
            at_worker.set_blocked(false);
        }
        self.wants_turn = self.workflow.needs_worker() && is_owned && is_live && self.at_worker.is_none();
    }

    /// Whether the worker that has this turn may go on with the run.
    fn may_go_on(&self, turn: u32) -> bool {
        self.state.code().is_some_and(|code| code.may_go_on(turn))
    }

    /// A run that was paused and resumed, or failed and was retried, in one item: its worker may not go on.
    fn leave_turn_that_is_over(&mut self) {
        let code = self.state.code();
        let is_over = |turn: u32| !code.is_some_and(|code| code.may_go_on(turn));
        if let Some(at_worker) = self.at_worker.take_if(|at| is_over(at.seat.turn)) {
            let (run, turn) = (self.state.run, at_worker.seat.turn);
            Workers::say(&at_worker.seat.session, WorkerMessage::Revoked { run, turn });
            self.wants_turn = true;
        }
    }

    /// The worker does not have this turn any more, if it had it.
    pub(crate) fn drop_turn(&mut self, turn: u32) {
        if let Some(at_worker) = self.at_worker.take_if(|at| at.seat.turn == turn) {
            self.wants_turn = !at_worker.is_blocked || !at_worker.is_told;
        }
    }

    /// What a report says that is not for the journal. Whoever is refused something goes on with that, and waits for
    /// nothing; nor does a function that has nothing open.
    pub(crate) fn hear(&mut self, turn: u32, report: &Report, respond: &Respond, has_refused: bool) {
        let Some(at_worker) = self.at_worker.as_mut().filter(|at| at.seat.turn == turn) else { return };
        let session = &at_worker.seat.session;
        let is_its_own = matches!(respond, Respond::Worker(sender, _) if sender.id == session.id);
        match report {
            // Only whoever has the turn knows what its function does.
            Report::Blocked { .. } | Report::Declined { .. } if !is_its_own => {}
            Report::Blocked { seq } => {
                let has_all = at_worker.is_told && *seq >= at_worker.told && !has_refused;
                at_worker.set_blocked(has_all && self.state.open().next().is_some());
            }
            Report::Declined { failure } => {
                // One that drains gives back what it has, and gets nothing more at any rate.
                if session.inner().capacity > 0 {
                    tracing::warn!(worker = session.worker, lane = %self.lane, %failure, "a worker declined a run");
                    at_worker.seat.workers.decline(session, &self.lane);
                }
                self.at_worker = None;
                self.wants_turn = true;
            }
            Report::Completed { .. }
            | Report::Failed { .. }
            | Report::Slept { .. }
            | Report::Waited { .. }
            | Report::Called { .. } => at_worker.set_blocked(false),
            Report::Returned { .. } | Report::Threw { .. } | Report::Diverged { .. } => {}
        }
    }

    /// Whether a run that is only visited is due before its state says so: it needs a worker.
    pub(crate) fn is_due_by_row(&self) -> bool {
        self.tenure == Tenure::Visiting && self.due_by_row < self.state.next_due().unwrap_or(Timestamp::NEVER)
    }

    /// What a run of a code workflow is to be after its next item; `None` where a timer decides.
    pub(crate) fn code_becomes(&self, now: Timestamp) -> Option<Becomes> {
        match &self.at_worker {
            _ if self.state.is_paused() => Some(Becomes::Parked(Timestamp::NEVER)),
            Some(at_worker) if !at_worker.is_blocked => Some(Becomes::Owned),
            // Whoever has waited longest is claimed first.
            None if self.wants_turn => Some(Becomes::Parked(now.min(self.due_by_row))),
            // Whoever wrote the row knew whether the run needs a worker; by whose clock does not matter.
            None if self.is_due_by_row() => Some(Becomes::Parked(self.due_by_row)),
            Some(_) | None => None,
        }
    }
}

/// All that a worker needs to run a run's function from the top.
fn describe(run: RunId, workflow: &Workflow, state: &State, turn: u32) -> Turn {
    let known_steps = state.code().into_iter().flat_map(|code| code.steps());
    let mut steps: Vec<_> = known_steps.filter_map(|(key, step)| known(state, key, step)).collect();
    steps.sort_by_key(|step| step.seq);
    Turn {
        run,
        turn,
        workflow: workflow.name.clone(),
        version: workflow.version,
        input: state.input.clone(),
        started_at: state.started_at,
        seq: state.seq,
        steps,
    }
}

fn known(state: &State, key: &StepKey, step: &Step) -> Option<StepRecord> {
    let outcome = match &step.end {
        Some(End::Output(output)) => StepOutcome::Completed { output: output.clone() },
        Some(End::Failure(failure)) => StepOutcome::Failed { failure: failure.clone(), attempts: step.attempt },
        Some(End::Slept) => StepOutcome::Slept,
        Some(End::Signal(payload)) => StepOutcome::Resolved { payload: payload.clone() },
        Some(End::Timeout) => StepOutcome::TimedOut,
        None if state.is_open(key) => StepOutcome::Open,
        None if step.kind == StepKind::Run => StepOutcome::Retry { attempt: step.attempt + 1 },
        // A call that was cancelled with its run is made again.
        None => return None,
    };
    Some(StepRecord { step: key.clone(), kind: step.kind, seq: step.seq, outcome })
}

/// What an entry tells a function that goes on in memory; nothing where the answer to its own report does.
fn wake(state: &State, entry: &Entry, is_answered: impl Fn(u64) -> bool) -> Option<StepRecord> {
    let step = match &entry.event {
        Event::TimerFired { step, .. } | Event::WaitResolved { step, .. } | Event::StepFailed { step, .. } => step,
        // What a worker did itself has a beginning.
        Event::StepCompleted { step, outcome, .. } if outcome.started_at.is_none() || !is_answered(entry.seq) => step,
        _ => return None,
    };
    let told = known(state, step, state.code()?.step(step)?)?;
    // An attempt that failed and waits for its timer is no news.
    (told.outcome != StepOutcome::Open && told.seq == entry.seq).then_some(told)
}

/// How a worker is told what became of a report.
pub(crate) fn answer_of(n: u64, seq: Option<u64>, answer: Result<Reply, Error>) -> WorkerMessage {
    match answer {
        Ok(Reply::Accepted | Reply::Buffered) => WorkerMessage::Ack { n, seq },
        Ok(Reply::Repeated) => WorkerMessage::Ack { n, seq },
        Ok(Reply::Ignored(_)) => WorkerMessage::Ack { n, seq: None },
        Ok(Reply::Refused { code, message }) => WorkerMessage::Refused { n, code, detail: message },
        Err(Error::RunNotFound(run)) => {
            WorkerMessage::Refused { n, code: "FENCED".into(), detail: format!("run {run} was not found") }
        }
        Err(Error::Refused(detail)) => WorkerMessage::Refused { n, code: "STORE_REFUSED".into(), detail },
        Err(_) => WorkerMessage::Later { n },
    }
}
