//! Delivers inputs to their runs.

use std::collections::VecDeque;
use std::sync::Arc;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::run::{Input, State};

use super::Shard;
use super::message::Presence;
use crate::error::Error;
use crate::read::RunSnapshot;
use crate::run::{Envelope, Loading, LookedBack, Ownership, ReplyTo, RunSlot, is_own_result};
use crate::workers::{Session, WorkerReport};

impl Shard {
    /// Puts an input into its run's mailbox. A run that is not in memory is loaded first.
    pub(super) fn deliver(&mut self, id: RunId, mut envelope: Envelope) {
        if self.unreadable.is_pausing(id) {
            return envelope.answer(Err(Error::Busy(format!(
                "run {id} cannot be read by this node and is being paused; try again"
            ))));
        }
        match self.runs.get_mut(&id) {
            Some(RunSlot::Active(run)) => {
                let next = run.receive(envelope, &mut self.services);
                self.apply(id, next);
            }
            Some(RunSlot::Loading(loading)) => {
                let is_known = |row| loading.mailbox.iter().any(|waiting| waiting.inbox == Some(row));
                if !envelope.inbox.is_some_and(is_known) {
                    envelope.is_late = true;
                    loading.mailbox.push_back(envelope);
                }
            }
            // The result of a task or child of a run that has left memory is late. The run looks up its children when
            // it is loaded.
            None if envelope.inbox.is_none() && is_own_result(&envelope.input) => {}
            None => {
                let is_ignored =
                    envelope.inbox.is_some() && self.unreadable.is_shunned(id, self.services.world.clock.monotonic());
                if !is_ignored {
                    self.load(id, Loading { mailbox: VecDeque::from([envelope]), ..Loading::default() });
                }
            }
        }
    }

    /// Accepts the reports of one request. All reports of a run are decided together.
    pub(super) fn report(&mut self, session: &Arc<Session>, reports: Vec<WorkerReport>) {
        let mut active: Vec<RunId> = Vec::new();
        for WorkerReport { n, run: id, turn, report } in reports {
            let input = Input::Report { turn, report: Box::new(report) };
            let reply_to = ReplyTo::Worker(Arc::clone(session), n);
            let envelope = Envelope { reply_to, workspace: Some(session.workspace), ..Envelope::new(input) };
            match self.runs.get_mut(&id) {
                Some(RunSlot::Active(run)) => {
                    run.push(envelope);
                    if active.last() != Some(&id) {
                        active.push(id);
                    }
                }
                Some(RunSlot::Loading(_)) | None => self.deliver(id, envelope),
            }
        }
        for id in active {
            if let Some(RunSlot::Active(run)) = self.runs.get_mut(&id) {
                let next = run.advance(&mut self.services);
                self.apply(id, next);
            }
        }
    }

    /// A wait of a run has looked back. A run that has left memory does so again when it is loaded.
    pub(super) fn looked_back(&mut self, id: RunId, looked: LookedBack) {
        if let Some(RunSlot::Active(run)) = self.runs.get_mut(&id) {
            let next = run.looked_back(looked, &mut self.services);
            self.apply(id, next);
        }
    }

    /// Records that a leaving worker gives a turn back.
    pub(super) fn give_turn_back(&mut self, id: RunId, turn: u32) {
        match self.runs.get_mut(&id) {
            Some(RunSlot::Active(run)) => {
                run.give_back(turn);
                let next = run.advance(&mut self.services);
                self.apply(id, next);
            }
            Some(RunSlot::Loading(loading)) => loading.performer.give_back(turn),
            None => {}
        }
    }

    /// Whether a run is in memory, for a caller of a workspace.
    pub(super) fn find(&self, id: RunId, workspace: WorkspaceId) -> Presence {
        match self.runs.get(&id) {
            None => Presence::Absent,
            Some(RunSlot::Loading(_)) => Presence::Present(None),
            Some(RunSlot::Active(run)) => {
                Presence::Present((run.workspace() == workspace).then(|| Arc::clone(run.workflow())))
            }
        }
    }

    /// The state of a run, unless an item of it is in flight.
    pub(super) fn inspect(&self, id: RunId) -> Option<State> {
        match self.runs.get(&id)? {
            RunSlot::Active(run) if !run.is_in_flight() => Some(run.state().clone()),
            RunSlot::Active(_) | RunSlot::Loading(_) => None,
        }
    }

    /// The activity of a run. The state here is certainly the newest only while no other node can own the run.
    pub(super) fn snapshot(&self, id: RunId) -> Option<RunSnapshot> {
        match self.runs.get(&id)? {
            RunSlot::Active(run) if !run.is_in_flight() && run.ownership() == Ownership::Owner => {
                self.services.may_dispatch().then(|| run.snapshot())
            }
            RunSlot::Active(_) | RunSlot::Loading(_) => None,
        }
    }
}
