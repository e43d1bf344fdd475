//! What becomes of an item: applied, refused, in conflict, or lost.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use everstep_core::code::Report;
use everstep_core::failure::{Failure, code};
use everstep_core::ids::{NodeId, RunId};
use everstep_core::planted::{self, Bug};
use everstep_core::run::Input;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::{Outcome, Sent, Snapshot};

use crate::engine::Started;
use crate::error::Error;
use crate::message::{Place, ToClaimer, Verdict};
use crate::observe::Seen;
use crate::peers::Hint;
use crate::run::active::{Becomes, Flight, Held, Loading, Slot, Tenure};
use crate::shard::Shard;
use crate::shard::load::Pausing;
use crate::start::{Beginning, Begun};

/// A run that wrote this many entries since its last snapshot gets a new one when it leaves memory.
const SNAPSHOT_AFTER: u64 = 1_000;

impl Shard {
    pub(crate) fn committed(&mut self, run: RunId, verdict: Verdict) {
        if let Some(Pausing { row, entries }) = self.pausing.remove(&run) {
            // A pause that was not written is tried again: the run may be ours still.
            if let Verdict::Stored(Outcome::Conflict | Outcome::Lost) | Verdict::Refused(_) | Verdict::Full(_) = verdict
            {
                self.load(run, Loading::default());
            } else if let Verdict::Stored(_) = verdict {
                self.observe(&Seen {
                    run,
                    workspace: row.workspace,
                    workflow: &row.workflow,
                    version: row.version,
                    graph: None,
                    code: None,
                    is_test: row.is_test,
                    parent: None,
                    started_at: row.created_at,
                    before: Some(row.status),
                    after: Status::Paused,
                    entries: &entries,
                    since: &[],
                    answered: &[],
                });
            }
            return;
        }
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        let Some(flight) = held.flight.take() else { return };
        if let Verdict::Stored(Outcome::Conflict | Outcome::Lost) = verdict {
            self.shared.conflicts.fetch_add(1, Ordering::Relaxed);
        }
        match verdict {
            Verdict::Stored(Outcome::Applied(sent)) => {
                self.tell_addressees(&sent);
                self.applied(run, flight);
            }
            // Whom its messages went to is not known any more.
            Verdict::Stored(Outcome::Duplicate) => {
                if flight.has_messages {
                    self.hint_inbox(None);
                }
                self.applied(run, flight);
            }
            Verdict::Stored(Outcome::Exists(winner)) => {
                if let Some(reply) = flight.start {
                    let started = Started { run: winner, created: false };
                    let _ = reply.send(Ok(Begun { started, beginning: None }));
                }
                self.forget(run);
            }
            Verdict::Stored(Outcome::Conflict) => self.conflict(run, flight),
            Verdict::Stored(Outcome::Lost) => self.reload(run, flight, None, None),
            Verdict::Refused(message) => self.refused(run, flight, message),
            Verdict::Full(message) => self.abandon(run, flight, &Error::Full(message)),
            Verdict::Fenced { is_unknown: true } => self.abandon(run, flight, &Error::OutcomeUnknown(self.node)),
            Verdict::Fenced { is_unknown: false } => {
                self.abandon(run, flight, &Error::Busy("this node was fenced; try again".to_owned()));
            }
        }
    }

    /// The item is durable: answer, dispatch, and go on.
    pub(crate) fn applied(&mut self, run: RunId, mut flight: Flight) {
        self.observe_item(run, &flight);
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        let was_owned = held.tenure == Tenure::Owned;
        let was_due = held.is_due_by_row();
        held.tenure = if flight.becomes == Becomes::Owned { Tenure::Owned } else { Tenure::Visiting };
        held.status = flight.status;
        held.conflict = None;
        held.performing.keep_open(&held.state);
        let is_owned = held.tenure == Tenure::Owned;
        // It was due in its lane, and is not any more: we see to it that it gets a worker.
        held.wants_turn |= is_owned && was_due && held.workflow.needs_worker() && held.at_worker.is_none();
        // What was open while nobody owned the run, or while it was paused or over, is performed by nobody.
        let is_woken = flight
            .answered
            .iter()
            .any(|(mail, reply)| reply.is_accepted() && matches!(mail.input, Input::Resume | Input::Retry));
        if is_owned && (!was_owned || is_woken) {
            let fresh: BTreeSet<_> = flight.dispatched.iter().cloned().collect();
            held.find_lost_tasks();
            held.mailbox.retain(|mail| match &mail.input {
                Input::TaskLost { step, attempt } => !fresh.contains(&(step.clone(), *attempt)),
                _ => true,
            });
        }
        if !is_owned {
            held.place = None;
        } else if held.place.is_none() {
            held.place = Some(Place::take(&self.shared, &self.claimer));
        }
        if let Some(reply) = flight.start.take() {
            // A message may have been sent to it just before it was there.
            if held.state.parent.is_some() {
                let _ = self.claimer.send(ToClaimer::Inbox);
            }
            let beginning = flight.row.take().map(|row| Box::new(Beginning { row: *row, look: held.look() }));
            let _ = reply.send(Ok(Begun { started: Started { run, created: true }, beginning }));
        }
        held.remember_rows(&flight.answered);
        let has_ended_itself = flight
            .answered
            .iter()
            .any(|(mail, reply)| reply.is_accepted() && mail.input.report().is_some_and(Report::is_end));
        self.answer(run, &mut flight);
        self.dispatch(run, &flight.dispatched);
        self.tell_turn(run, flight.becomes, has_ended_itself);
        if is_owned {
            self.see_to_children(run);
        }
        self.tell_watchers(run);
        if let Becomes::Parked(due) = flight.becomes {
            self.parked(run, due);
        }
        self.go_on(run);
    }

    fn observe_item(&self, run: RunId, flight: &Flight) {
        let Some(Slot::Held(held)) = self.runs.get(&run) else { return };
        self.observe(&Seen {
            run,
            workspace: held.workspace,
            workflow: &held.workflow.name,
            version: held.workflow.version,
            graph: held.workflow.graph(),
            code: held.state.code(),
            is_test: held.is_test,
            parent: held.state.parent.as_ref(),
            started_at: held.state.started_at,
            before: flight.before,
            after: flight.status,
            entries: &flight.entries,
            since: &flight.since,
            answered: &flight.answered,
        });
    }

    fn observe(&self, seen: &Seen<'_>) {
        self.tally.see(seen);
        self.world.observe.committed(seen);
    }

    /// Says that the inbox has news for the runs that messages were sent to.
    fn tell_addressees(&self, sent: &[Sent]) {
        for sent in sent.iter().filter(|sent| sent.id.is_some()) {
            self.hint_inbox(sent.owner);
        }
    }

    /// Says that the inbox has news: to the node that owns the run, or to ourselves when nobody does.
    fn hint_inbox(&self, owner: Option<NodeId>) {
        match owner.filter(|owner| *owner != self.node) {
            None => _ = self.claimer.send(ToClaimer::Inbox),
            Some(owner) => {
                if let Some(peer) = self.shared.peer(owner) {
                    self.world.peers.hint(&peer, Hint::Inbox);
                }
            }
        }
    }

    pub(crate) fn parked(&mut self, run: RunId, due: Timestamp) {
        if due <= self.world.clock.now() {
            for peer in self.shared.peers() {
                self.world.peers.hint(&peer, Hint::Work);
            }
        }
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        if due < Timestamp::NEVER {
            let _ = self.claimer.send(ToClaimer::Parked(Arc::clone(&held.lane), due));
        }
        if planted::is_planted(Bug::ParkIgnoresInbox) {
            held.mailbox.clear();
        }
        if held.state.seq > held.snapshot_seq + SNAPSHOT_AFTER {
            held.snapshot_seq = held.state.seq;
            let state = serde_json::to_vec(&held.state).expect("a state is plain data");
            let snapshot = Snapshot { seq: held.state.seq, format: everstep_core::run::SNAPSHOT_FORMAT, state };
            let world = self.world.clone();
            self.world.spawn.spawn(Box::pin(async move {
                if let Err(error) = world.runs.put_snapshot(run, snapshot).await {
                    tracing::warn!(%run, %error, "no snapshot was written; the journal will be read whole");
                }
            }));
        }
    }

    /// After an item: decide what arrived meanwhile, or rest.
    pub(crate) fn go_on(&mut self, run: RunId) {
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        if held.tenure == Tenure::Visiting {
            // While the answer was on its way others may have gone on with the run: what waits is decided on what
            // stands there now. Of what we did ourselves nobody wants to know any more.
            held.mailbox.retain(|mail| mail.respond.is_somebody() || mail.inbox.is_some());
            if !held.mailbox.is_empty()
                && let Some(held) = self.take_out(run)
            {
                let (mailbox, place) = (held.mailbox, held.claim);
                return self.load(run, Loading { mailbox, place, ..Loading::default() });
            }
            return self.rest(run);
        }
        if held.mailbox.is_empty() && !held.has_more && !held.wants_turn {
            self.rest(run);
        } else {
            self.advance(run);
        }
    }

    /// Another entry stands where ours should: read the journal and decide again.
    pub(crate) fn conflict(&mut self, run: RunId, flight: Flight) {
        let Some(Slot::Held(held)) = self.runs.get(&run) else { return };
        // An inbox row that another has answered says nothing about the journal.
        let took_rows = flight.answered.iter().any(|(mail, _)| mail.inbox.is_some());
        let seq = flight.first_seq.filter(|_| !took_rows);
        let urgent = seq.filter(|_| held.conflict == seq).map(|seq| {
            let message = format!("entry {seq} was refused again after a reload");
            let reason = Failure::fatal(code::JOURNAL_CONFLICT, message);
            tracing::error!(%run, %reason, "paused");
            Input::Pause { reason: Some(reason) }
        });
        self.reload(run, flight, seq, urgent);
    }

    /// Forgets a run's state and reads it anew, keeping its inputs and its tasks.
    pub(crate) fn reload(&mut self, run: RunId, flight: Flight, conflict: Option<u64>, urgent: Option<Input>) {
        if let Some(reply) = flight.start {
            let _ = reply.send(Err(Error::Busy("the run's id is taken; start it again".to_owned())));
        }
        let Some(held) = self.take_out(run) else { return };
        let mut mailbox: VecDeque<_> =
            flight.answered.into_iter().map(|(mail, _)| mail).filter(|mail| !is_own(&mail.input)).collect();
        let Held { mailbox: waiting, claim, place, performing, at_worker, .. } = *held;
        mailbox.extend(waiting.into_iter().filter(|mail| !is_own(&mail.input)));
        let place = claim.or(place);
        self.load(run, Loading { mailbox, performing, at_worker, place, must_reload: false, conflict, urgent });
    }

    /// The database refuses this item for ever: the run fails without the payload that it cannot store.
    pub(crate) fn refused(&mut self, run: RunId, flight: Flight, message: String) {
        tracing::error!(%run, message, "the database refused an item");
        let error = Error::Refused(message.clone());
        if flight.start.is_some() {
            return self.abandon(run, flight, &error);
        }
        let Flight { answered, .. } = flight;
        for (mail, _) in answered {
            mail.answer(Err(error.clone()));
        }
        let Some(held) = self.take_out(run) else { return };
        let failure = Failure::fatal(code::STORE_REFUSED, message);
        let Held { mailbox, claim, place, performing, at_worker, .. } = *held;
        let mailbox = mailbox.into_iter().filter(|mail| !is_own(&mail.input)).collect();
        let (place, urgent) = (claim.or(place), Some(Input::Fail { failure }));
        self.load(run, Loading { mailbox, performing, at_worker, place, urgent, ..Loading::default() });
    }

    /// Drops a run and tells everybody who waits for it.
    pub(crate) fn abandon(&mut self, run: RunId, flight: Flight, error: &Error) {
        if let Some(reply) = flight.start {
            let _ = reply.send(Err(error.clone()));
        }
        for (mail, _) in flight.answered {
            mail.answer(Err(error.clone()));
        }
        let Some(held) = self.take_out(run) else { return };
        held.performing.abort();
        Self::revoke(held.at_worker, run);
        for mail in held.mailbox {
            mail.answer(Err(error.clone()));
        }
    }

    pub(crate) fn take_out(&mut self, run: RunId) -> Option<Box<Held>> {
        match self.runs.remove(&run)? {
            Slot::Held(held) => {
                if let Some(due) = held.timer {
                    self.timers.remove(&(due, run));
                }
                self.weight -= held.weight;
                Some(held)
            }
            slot @ Slot::Loading(_) => {
                self.runs.insert(run, slot);
                None
            }
        }
    }

    pub(crate) fn forget(&mut self, run: RunId) {
        self.take_out(run);
    }
}

/// Inputs that follow from a run's state: after a reload they are found anew.
fn is_own(input: &Input) -> bool {
    matches!(input, Input::Settle | Input::Timer { .. } | Input::TaskLost { .. } | Input::Start { .. })
}
