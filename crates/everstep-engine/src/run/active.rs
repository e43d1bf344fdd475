//! A run in memory.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::journal::Entry;
use everstep_core::planted::{self, Bug};
use everstep_core::run::keys::HoldKey;
use everstep_core::run::{Input, State};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::workflow::Workflow;
use everstep_store::StoredRun;

use super::children::Children;
use super::end_report::EndReport;
use super::in_flight::{InFlight, Rest};
use super::look_back::LookBacks;
use super::mailbox::{self, Envelope, Mailbox};
use super::ownership::{Ownership, Permits};
use super::pending::PendingRun;
use super::performer::Performer;
use super::waits::WaitRows;
use crate::node::permits::RunPermit;
use crate::shard::{Scheduled, Services};
use crate::workers;

/// A run in its shard.
#[expect(clippy::large_enum_variant, reason = "few runs are loading, and only for a moment")]
pub(crate) enum RunSlot {
    Loading(Loading),
    Active(Box<ActiveRun>),
}

/// A run whose journal is being read.
#[derive(Default)]
pub(crate) struct Loading {
    pub(crate) mailbox: VecDeque<Envelope>,
    /// The performer of the run before it was loaded again. Its work continues while the journal is read.
    pub(crate) performer: Performer,
    /// The run's permit, if it is counted as this node's.
    pub(crate) permit: Option<RunPermit>,
    /// Whether the run was claimed after the read began: the result of the read may be older than the claim.
    pub(crate) must_reload: bool,
    /// The seq at which an item was rejected before.
    pub(crate) conflict: Option<u64>,
    /// Decided before anything else, and alone: that the run is paused, or that it fails.
    pub(crate) urgent: Option<Input>,
    /// Whether an item was returned because it waited for space and the run is to end: the cancellations are decided first.
    pub(crate) ends_first: bool,
}

/// The state of a run that was read, with the workflow that it was folded with.
pub(crate) struct FoldedRun {
    pub(crate) workflow: Arc<Workflow>,
    pub(crate) state: State,
}

/// The action of the shard on a run after a message.
#[must_use]
pub(crate) enum Next {
    /// It stays in memory: an item is in flight, or it waits for its timer.
    Keep,
    /// A guest leaves memory. If it was claimed in the interval, it is loaded again, as its owner.
    Park,
    /// Its state is discarded and read again.
    Reload(Box<Loading>),
    /// It leaves memory, and everything that belonged to it is settled.
    Drop,
}

/// **Invariant**: while an item is in flight nothing is decided, so the state is the one after that item.
pub(crate) struct ActiveRun {
    pub(super) workspace: WorkspaceId,
    pub(super) workflow: Arc<Workflow>,
    pub(super) is_test: bool,
    /// When the run's row was created.
    pub(super) created_at: Timestamp,
    /// The workers that the run needs; empty if the server performs it.
    pub(super) lane: Arc<str>,
    pub(super) state: State,
    /// The status that the run's row shows.
    pub(super) row_status: Status,
    /// The format of the run's row; 0 before its start.
    pub(super) row_format: u32,
    /// The versionNo in the run's row, if the run is of a machine.
    pub(super) row_version_no: Option<u32>,
    /// The versionNo without the item in flight.
    pub(super) durable_version_no: Option<u32>,
    pub(super) ownership: Ownership,
    pub(super) permits: Permits,
    pub(super) mailbox: Mailbox,
    pub(super) in_flight: Option<InFlight>,
    pub(super) performer: Performer,
    pub(super) waits: WaitRows,
    pub(super) children: Children,
    pub(super) look_backs: LookBacks,
    /// The start of a run that has not begun: its row has no journal.
    pub(super) pending: Option<Box<PendingRun>>,
    /// The keys of pauses and resumptions before the run began.
    pub(super) holds: Vec<HoldKey>,
    /// The caller that has started the run and waits for its end.
    pub(super) end: Option<EndReport>,
    /// The seq of the last snapshot.
    pub(super) snapshot_seq: u64,
    /// The seq at which an item was rejected before the run was loaded again.
    pub(super) conflict: Option<u64>,
    /// The schedule's record of the run.
    scheduled: Scheduled,
    /// Whether the next decision of the run waits for the turn of its workspace.
    pub(super) is_deferred: bool,
}

impl ActiveRun {
    /// A run that starts.
    pub(crate) fn new(
        workspace: WorkspaceId,
        workflow: Arc<Workflow>,
        run: RunId,
        is_test: bool,
        created_at: Timestamp,
    ) -> Self {
        let (lane, state) = (workers::lane(workspace, &workflow), State::new(run, &workflow));
        Self {
            performer: Performer::new(&lane),
            lane,
            workspace,
            workflow,
            is_test,
            created_at,
            state,
            row_status: Status::Pending,
            row_format: 0,
            row_version_no: None,
            durable_version_no: None,
            ownership: Ownership::Owner,
            permits: Permits::default(),
            mailbox: Mailbox::default(),
            in_flight: None,
            waits: WaitRows::default(),
            children: Children::default(),
            look_backs: LookBacks::default(),
            pending: None,
            holds: Vec::new(),
            end: None,
            snapshot_seq: 0,
            conflict: None,
            scheduled: Scheduled::default(),
            is_deferred: false,
        }
    }

    /// A run that was read, with the state that was folded from its journal.
    pub(crate) fn from_state(loaded: &StoredRun, folded: FoldedRun, ownership: Ownership) -> Self {
        let FoldedRun { workflow, state } = folded;
        let row = &loaded.run;
        let mut run = Self::new(row.workspace, workflow, row.id, row.is_test, row.created_at);
        run.state = state;
        run.snapshot_seq = loaded.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
        run.pending = (!loaded.has_begun()).then(|| Box::new(PendingRun::from_row(row)));
        run.holds = row.start.as_ref().map(|start| start.holds.clone()).unwrap_or_default();
        run.ownership = ownership;
        run.row_status = row.status;
        run.row_format = row.format;
        run.row_version_no = row.machine.as_ref().map(|place| place.version_no);
        run.durable_version_no = run.version_no();
        if planted::is_planted(Bug::KeyForgottenOnReload) {
            run.state.forget_requests();
        }
        run.waits = WaitRows::from_state(&run.state, row.origin.is_some());
        run.look_backs = LookBacks::from_state(&run.state);
        run
    }

    /// Takes over the inputs that waited while the run was loaded, starts its children, and continues.
    ///
    /// Rows of the inbox arrive twice: with the loaded run, and from the inbox reader. The loaded run is authoritative.
    /// A row that only the reader delivered was answered before the load, or was written after it: the inbox is read
    /// again.
    pub(crate) fn take_over(&mut self, loading: Loading, loaded: &StoredRun, services: &mut Services) -> Next {
        let is_owner = self.ownership == Ownership::Owner;
        let wake_at = loaded.run.wake_at;
        let permit = is_owner.then(|| loading.permit.unwrap_or_else(|| services.permit()));
        self.permits.held = permit.map(|permit| permit.assign(self.workspace));
        self.lend_permit();
        self.adopt_performer(loading.performer, wake_at);
        self.conflict = loading.conflict;
        self.mailbox.set_urgent(loading.urgent);
        let mut received = loading.mailbox;
        // What the run derives from its state alone may fill an item, which would wait for space as well.
        while loading.ends_first
            && let Some(envelope) = received.pop_front_if(|first| mailbox::requests_end(first))
        {
            self.mailbox.push(envelope);
        }
        if is_owner && !self.is_pending() {
            self.mailbox.push(Envelope::new(Input::Settle));
        } else if !is_owner && wake_at == Timestamp::NEVER && !self.state.is_paused() && !self.state.has_ended() {
            // It was parked, so its children exist, and its waits have looked back. (A released run is due; a paused or failed run may have children
            // that were not started.)
            self.children.all_exist(&self.state);
            self.look_backs.all_done(&self.state);
        }
        let rows: BTreeSet<_> = loaded.inbox.iter().map(|arrival| arrival.id).collect();
        self.mailbox.extend(loaded.inbox.iter().filter_map(Envelope::from_row));
        for mut envelope in received {
            envelope.see_version(self.durable_version_no);
            match envelope.inbox {
                None => self.mailbox.push(envelope),
                Some(row) if rows.contains(&row) => {}
                Some(_) => services.read_inbox(),
            }
        }
        if is_owner {
            self.find_lost_tasks(None);
        }
        if planted::is_planted(Bug::TimerLostOnReload) {
            self.scheduled.pretend(self.state.next_due());
        }
        services.schedule.set(self);
        if is_owner {
            self.start_children(services);
            self.start_look_backs(services);
        }
        self.advance(services)
    }

    pub(crate) fn id(&self) -> RunId {
        self.state.run
    }

    pub(crate) fn workspace(&self) -> WorkspaceId {
        self.workspace
    }

    pub(crate) fn is_test(&self) -> bool {
        self.is_test
    }

    pub(crate) fn workflow(&self) -> &Arc<Workflow> {
        &self.workflow
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn ownership(&self) -> Ownership {
        self.ownership
    }

    pub(crate) fn row_status(&self) -> Status {
        self.row_status
    }

    /// Whether the run's row has an older place of a machine than the state, or a lower format than the entries.
    pub(crate) fn is_row_behind(&self, format: u32) -> bool {
        let has_moved = self.version_no() != self.row_version_no && !planted::is_planted(Bug::RowLagsBehind);
        has_moved || format > self.row_format
    }

    pub(super) fn version_no(&self) -> Option<u32> {
        self.state.place_of_machine().map(|(_, version_no)| version_no)
    }

    /// The format of an item with these entries: no entry of it needs a higher one, nor does the run's style.
    pub(crate) fn format_of(&self, entries: &[Entry]) -> u32 {
        let formats = entries.iter().map(|entry| entry.event.format());
        formats.fold(self.workflow.style.format(), u32::max)
    }

    /// Whether a worker runs the run's function now.
    pub(crate) fn is_at_work(&self) -> bool {
        self.performer.is_busy()
    }

    /// The waits that have rows, with the workflow and the state that they follow from.
    pub(crate) fn waits_and_state(&mut self) -> (&mut WaitRows, &Workflow, &State) {
        (&mut self.waits, &self.workflow, &self.state)
    }

    pub(crate) fn scheduled(&mut self) -> &mut Scheduled {
        &mut self.scheduled
    }

    pub(crate) fn is_deferred(&self) -> bool {
        self.is_deferred
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Whether the item in flight makes the run leave this node.
    pub(crate) fn is_leaving(&self) -> bool {
        self.in_flight.as_ref().is_some_and(|in_flight| in_flight.rest != Rest::Active)
    }

    pub(crate) fn has_claim(&self) -> bool {
        self.permits.claim.is_some()
    }

    /// The run was claimed while it was in memory.
    pub(crate) fn set_claim(&mut self, permit: RunPermit) {
        self.permits.claim = Some(permit);
    }

    pub(crate) fn take_claim(&mut self) -> Option<RunPermit> {
        self.permits.claim.take()
    }

    /// Puts the first item of a run in flight.
    pub(crate) fn begin(&mut self, in_flight: InFlight, permit: Option<RunPermit>) {
        self.in_flight = Some(in_flight);
        self.permits.held = permit;
    }

    /// Adds an input that is decided with others later.
    pub(crate) fn push(&mut self, envelope: Envelope) {
        self.mailbox.push(envelope);
    }

    pub(crate) fn extend(&mut self, envelopes: impl IntoIterator<Item = Envelope>) {
        self.mailbox.extend(envelopes);
    }

    /// Ends the run's stay in memory because this node stops: waiting inputs were not written.
    pub(crate) fn into_parts(self) -> (Performer, VecDeque<Envelope>) {
        let Self { performer, mut mailbox, .. } = self;
        (performer, mailbox.take_waiting())
    }

    /// Whether an inbox row waits here, is being answered, or was answered.
    pub(super) fn has_row(&self, envelope: &Envelope) -> bool {
        let Some(row) = envelope.inbox else { return false };
        self.mailbox.has_row(row) || self.in_flight.as_ref().is_some_and(|in_flight| in_flight.answers_row(row))
    }

    /// The state of ownership of the run after its next item.
    pub(crate) fn rest_after(&self, now: Timestamp, park_after: Duration) -> Rest {
        if self.state.has_ended() {
            return Rest::Ended;
        }
        // Its row keeps its wake time.
        if self.is_pending() {
            return Rest::Parked(Timestamp::NEVER);
        }
        let is_missing = self.children.are_missing(&self.state) || self.look_backs.are_missing(&self.state);
        if self.has_tasks() || !self.mailbox.is_empty() || is_missing {
            return Rest::Active;
        }
        if let Some(rest) = self.performer_rest(now) {
            return rest;
        }
        let due = self.state.next_due().unwrap_or(Timestamp::NEVER);
        if due > now.plus(park_after) { Rest::Parked(due) } else { Rest::Active }
    }

    /// Lends the permit of a run that only waits for its deliveries: a target that hangs must not keep other runs of the
    /// workspace from starting.
    pub(super) fn lend_permit(&mut self) {
        match &mut self.permits.held {
            Some(permit) if self.state.only_delivers() => permit.lend(),
            Some(permit) => permit.take_back(),
            None => {}
        }
    }

    /// Whether the run only waits for a timer.
    pub(crate) fn is_idle(&self) -> bool {
        self.ownership == Ownership::Owner
            && self.in_flight.is_none()
            && self.mailbox.is_empty()
            && !self.performer.is_busy()
            && !self.performer.wants_turn()
            && !self.state.has_open_tasks()
            && !self.children.are_missing(&self.state)
            && !self.look_backs.are_missing(&self.state)
    }
}
