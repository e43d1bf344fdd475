//! Acts on the verdict of a run's item: applied, rejected, in conflict, or lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use everstep_core::failure::{Failure, code};
use everstep_core::ids::RunId;
use everstep_core::planted::{self, Bug};
use everstep_core::run::{Input, Reply, SNAPSHOT_FORMAT};
use everstep_core::time::Timestamp;
use everstep_store::{CommitOutcome, Snapshot};

use super::active::{ActiveRun, Loading, Next};
use super::in_flight::{InFlight, Rest};
use super::mailbox::{self, Envelope, is_derived};
use super::ownership::Ownership;
use crate::commit::Verdict;
use crate::error::Error;
use crate::observe::CommittedItem;
use crate::shard::Services;
use crate::start::{ShardReply, StartedRun};

/// The bounds of the number of entries after which a run that parks gets a new snapshot.
const SNAPSHOT_AFTER_ENTRIES_MIN: u64 = 64;
const SNAPSHOT_AFTER_ENTRIES_MAX: u64 = 1_000;
/// Between the bounds, the number is this part of the journal up to the last snapshot.
const SNAPSHOT_AFTER_PART: u64 = 16;

impl ActiveRun {
    pub(crate) fn settled(&mut self, verdict: Verdict, services: &mut Services) -> Next {
        let Some(in_flight) = self.in_flight.take() else { return Next::Keep };
        if in_flight.is_withdrawn {
            services.shared.withdrawn().remove(&self.state.run);
        }
        match verdict {
            Verdict::Stored(CommitOutcome::Applied(sent)) => {
                services.announce_inbox(&sent);
                self.applied(in_flight, services)
            }
            // The reply to a resent item does not name the owners of the receivers of its inputs.
            Verdict::Stored(CommitOutcome::Duplicate) => {
                if in_flight.has_inbox_inputs {
                    services.read_inbox();
                }
                if planted::is_planted(Bug::StatsCountAResentItem) {
                    self.observe(&in_flight, services);
                }
                self.applied(in_flight, services)
            }
            Verdict::Stored(CommitOutcome::Exists(winner)) => {
                if let Some(reply) = in_flight.start {
                    let _ = reply.send(Ok(ShardReply { run: winner, created: false, began: None }));
                }
                Next::Drop
            }
            Verdict::Stored(CommitOutcome::Conflict) => {
                services.shared.conflicts.fetch_add(1, Ordering::Relaxed);
                self.in_conflict(in_flight)
            }
            Verdict::Stored(CommitOutcome::Lost) => {
                services.shared.conflicts.fetch_add(1, Ordering::Relaxed);
                self.reload(in_flight, None, None)
            }
            Verdict::Refused(message) => self.refused(in_flight, message),
            Verdict::Full(message) => self.abandon(in_flight, &Error::Full(message)),
            Verdict::Withdrawn => self.withdrawn(in_flight),
            Verdict::Fenced { is_unknown: true } => self.abandon(in_flight, &Error::OutcomeUnknown(services.node)),
            Verdict::Fenced { is_unknown: false } => {
                self.abandon(in_flight, &Error::Busy("this node was fenced; try again".to_owned()))
            }
        }
    }

    /// The item is durable: reply, dispatch, and continue.
    fn applied(&mut self, mut in_flight: InFlight, services: &mut Services) -> Next {
        self.observe(&in_flight, services);
        services.announce_published(&in_flight.published);
        let was_owner = self.ownership == Ownership::Owner;
        let is_owner = in_flight.rest == Rest::Active;
        self.set_ownership(if is_owner { Ownership::Owner } else { Ownership::Guest });
        self.row_status = in_flight.status;
        self.row_format = self.row_format.max(in_flight.format);
        (self.row_version_no, self.durable_version_no) = (self.version_no(), self.version_no());
        self.conflict = None;
        // No handler performs the tasks that were open while the run had no owner, was paused or had ended.
        if is_owner && (!was_owner || in_flight.wakes_run()) {
            self.find_lost_tasks(Some(&in_flight));
        }
        // An owned run has one permit. A recovery that read the row before this verdict may have added another.
        if is_owner {
            self.permits.claim = None;
            self.lend_permit();
        } else {
            self.permits.held = None;
        }
        self.reply_to_start(&mut in_flight, services);
        self.mailbox.remember_answered(&in_flight.answered);
        let has_ended_itself = in_flight.ends_by_report();
        self.answer(&mut in_flight);
        if is_owner {
            self.dispatch(&in_flight.dispatched, services);
        }
        self.send_turn(in_flight.rest, has_ended_itself, &in_flight.entries, services);
        if is_owner {
            self.start_children(services);
            self.start_look_backs(services);
        }
        self.report_halt(&in_flight, &mut services.watchers);
        services.notify_watchers(&self.state);
        if let Rest::Parked(due) = in_flight.rest {
            if was_owner {
                services.follow_released(self.state.run);
            }
            self.parked(due, services);
        }
        self.go_on(services)
    }

    fn reply_to_start(&mut self, in_flight: &mut InFlight, services: &Services) {
        let Some(reply) = in_flight.start.take() else { return };
        // An input may have been sent to a child just before the child existed.
        if self.state.parent().is_some() {
            services.read_inbox();
        }
        let began = in_flight.row.take().map(|row| Box::new(StartedRun { row: *row, snapshot: self.snapshot() }));
        let _ = reply.send(Ok(ShardReply { run: self.state.run, created: true, began }));
    }

    fn observe(&self, in_flight: &InFlight, services: &Services) {
        services.observe(&CommittedItem {
            run: self.state.run,
            workspace: self.workspace,
            workflow: &self.workflow.name,
            version: self.workflow.version,
            folded: Some((&self.workflow, &self.state)),
            is_test: self.is_test,
            parent: self.state.parent(),
            started_at: self.state.started_at,
            created_at: self.created_at,
            before: in_flight.before,
            after: in_flight.status,
            entries: &in_flight.entries,
            settled: &in_flight.settled,
            answered: &in_flight.answered,
        });
    }

    fn parked(&mut self, due: Timestamp, services: &Services) {
        services.announce_parked(&self.lane, due);
        if planted::is_planted(Bug::ParkIgnoresInbox) {
            self.mailbox.clear();
        }
        if self.state.seq > self.snapshot_seq + snapshot_after(self.snapshot_seq) {
            self.snapshot_seq = self.state.seq;
            let state = serde_json::to_vec(&self.state).expect("a state is plain data");
            put_snapshot(self.state.run, Snapshot { seq: self.state.seq, format: SNAPSHOT_FORMAT, state }, services);
        }
    }

    /// After an item: decide the inputs that arrived in the interval, or rest.
    fn go_on(&mut self, services: &mut Services) -> Next {
        if self.ownership == Ownership::Owner {
            let has_work = !self.mailbox.is_empty() || self.performer.wants_turn();
            return if has_work { self.advance(services) } else { self.rest(services) };
        }
        // Other nodes may have continued the run while the verdict was in flight. Waiting inputs are decided on the
        // state that the store has now.
        self.mailbox.drop_generated();
        let mailbox = self.mailbox.take_waiting();
        if mailbox.is_empty() {
            return self.rest(services);
        }
        Next::Reload(Box::new(Loading { mailbox, permit: self.permits.claim.take(), ..Loading::default() }))
    }

    /// The store has another entry at the seq of the item's first one: read the journal and decide again.
    fn in_conflict(&mut self, in_flight: InFlight) -> Next {
        // An inbox row that another node has answered implies nothing about the journal.
        let seq = in_flight.first_seq.filter(|_| !in_flight.answers_rows());
        let urgent = seq.filter(|_| self.conflict == seq).map(|seq| {
            let message = format!("entry {seq} was rejected again after a reload");
            let reason = Failure::fatal(code::JOURNAL_CONFLICT, message);
            tracing::error!(run = %self.state.run, %reason, "paused");
            Input::Pause { reason: Some(reason) }
        });
        self.reload(in_flight, seq, urgent)
    }

    /// Discards the run's state and reads it again. Its inputs and its performer are kept.
    fn reload(&mut self, in_flight: InFlight, conflict: Option<u64>, urgent: Option<Input>) -> Next {
        if let Some(reply) = in_flight.start {
            let _ = reply.send(Err(Error::Busy("a run with this id exists; send the start again".to_owned())));
        }
        self.load_again(in_flight.answered, conflict, urgent)
    }

    /// Decides inputs again on the state that the store has now.
    pub(super) fn read_again(&mut self, undecided: Vec<(Envelope, Reply)>) -> Next {
        self.load_again(undecided, None, None)
    }

    fn load_again(&mut self, undecided: Vec<(Envelope, Reply)>, conflict: Option<u64>, urgent: Option<Input>) -> Next {
        let undecided = undecided.into_iter().map(|(envelope, _)| envelope);
        let waiting = self.mailbox.take_waiting();
        let mailbox = undecided.chain(waiting).filter(|envelope| !is_derived(&envelope.input)).collect();
        if self.ownership == Ownership::Guest {
            self.permits.held = None;
        }
        let (performer, permit) = (std::mem::take(&mut self.performer), self.permits.take_newest());
        Next::Reload(Box::new(Loading {
            mailbox,
            performer,
            permit,
            must_reload: false,
            conflict,
            urgent,
            ends_first: false,
        }))
    }

    /// The item waited for space, and was not written: read the journal, and decide the end of the run before the inputs of
    /// the item. Their senders have no reply yet, so they are as if they had arrived after it.
    fn withdrawn(&mut self, in_flight: InFlight) -> Next {
        let mut next = self.reload(in_flight, None, None);
        if let Next::Reload(loading) = &mut next {
            let inputs = std::mem::take(&mut loading.mailbox).into_iter();
            let (ending, others): (Vec<_>, Vec<_>) = inputs.partition(mailbox::requests_end);
            loading.mailbox.extend(ending.into_iter().chain(others));
            loading.ends_first = true;
        }
        next
    }

    /// The database rejects this item permanently: the run fails without the payload that cannot be stored.
    fn refused(&mut self, mut in_flight: InFlight, message: String) -> Next {
        tracing::error!(run = %self.state.run, message, "the database rejected an item");
        let error = Error::Refused(message.clone());
        if in_flight.start.is_some() {
            return self.abandon(in_flight, &error);
        }
        for (envelope, _) in in_flight.answered.drain(..) {
            envelope.answer(Err(error.clone()));
        }
        let failure = Failure::fatal(code::STORE_REFUSED, message);
        self.reload(in_flight, None, Some(Input::Fail { failure }))
    }

    /// Drops the run and replies to every caller that waits for it.
    fn abandon(&mut self, in_flight: InFlight, error: &Error) -> Next {
        if let Some(reply) = in_flight.start {
            let _ = reply.send(Err(error.clone()));
        }
        for (envelope, _) in in_flight.answered {
            envelope.answer(Err(error.clone()));
        }
        std::mem::take(&mut self.performer).abandon(self.state.run);
        for envelope in self.mailbox.take_waiting() {
            envelope.answer(Err(error.clone()));
        }
        Next::Drop
    }
}

/// The number of entries after a snapshot that a load may read, before the run gets a new snapshot.
///
/// A run of a machine is loaded for each request, so this number is part of the cost of a request. The state of a graph
/// or of a function grows with the journal: with a constant number, a long run would write its values again for every
/// few entries. With a fraction of the journal, all snapshots of a run together are as large as about sixteen of its
/// last state.
fn snapshot_after(snapshot_seq: u64) -> u64 {
    (snapshot_seq / SNAPSHOT_AFTER_PART).clamp(SNAPSHOT_AFTER_ENTRIES_MIN, SNAPSHOT_AFTER_ENTRIES_MAX)
}

/// Writes a snapshot, in a separate task.
fn put_snapshot(run: RunId, snapshot: Snapshot, services: &Services) {
    let store = Arc::clone(&services.world.runs);
    services.world.spawn.spawn(Box::pin(async move {
        if let Err(error) = store.put_snapshot(run, snapshot).await {
            tracing::warn!(%run, %error, "the snapshot was not written; the next load reads the journal from its beginning");
        }
    }));
}
