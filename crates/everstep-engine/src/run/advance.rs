//! Advances a run by one item.

use everstep_core::meter::Meter;
use everstep_core::planted::{self, Bug};
use everstep_core::time::Timestamp;

use super::active::{ActiveRun, Next};
use super::decide::Decided;
use super::in_flight::Rest;
use super::mailbox::{self, Envelope};
use super::ownership::Ownership;
use crate::commit::propose;
use crate::error::Error;
use crate::shard::{DeferredDecision, Services};

impl ActiveRun {
    /// Accepts an input. A known inbox row is ignored.
    pub(crate) fn receive(&mut self, mut envelope: Envelope, services: &mut Services) -> Next {
        if self.has_row(&envelope) {
            return Next::Keep;
        }
        envelope.see_version(self.durable_version_no);
        if mailbox::requests_end(&envelope) && !self.is_hidden_from(&envelope) {
            self.withdraw(services);
        }
        self.mailbox.push(envelope);
        self.advance(services)
    }

    /// Passes all waiting inputs through the core and submits one item to the committer: now, or in the turn of the
    /// workspace if it has used its time.
    pub(crate) fn advance(&mut self, services: &mut Services) -> Next {
        if self.in_flight.is_some() {
            return Next::Keep;
        }
        if services.deferred.must_wait(self.workspace) {
            return self.wait_for_turn(services);
        }
        self.advance_in_turn(services)
    }

    /// Defers the next decision.
    fn wait_for_turn(&mut self, services: &mut Services) -> Next {
        if !std::mem::replace(&mut self.is_deferred, true) {
            services.deferred.push(self.workspace, DeferredDecision::Run(self.state.run));
        }
        Next::Keep
    }

    /// Advances the run whether or not its workspace has used its time.
    pub(crate) fn advance_in_turn(&mut self, services: &mut Services) -> Next {
        self.is_deferred = false;
        if self.in_flight.is_some() {
            return Next::Keep;
        }
        let now = services.now();
        let meter = Meter::new();
        let mut decided = self.decide_all(services.cx(now, &meter));
        self.watch_decision(now, &decided, &meter, services);
        self.seek_worker(&mut decided, now, services);
        let rest = match self.rest_after(now, services.options.park_after) {
            // Paused in the item that dispatches a task: the task is performed, and its result arrives here.
            Rest::Parked(_) if decided.entries.iter().any(|entry| propose::begins_task(&self.state, entry)) => {
                Rest::Active
            }
            rest => rest,
        };
        self.propose(decided, rest, now, services)
    }

    /// Parks a run that only waits for a timer.
    pub(crate) fn park(&mut self, due: Timestamp, services: &mut Services) -> Next {
        let now = services.now();
        self.propose(Decided::default(), Rest::Parked(due), now, services)
    }

    /// Submits a decision to the committer.
    fn propose(&mut self, decided: Decided, rest: Rest, now: Timestamp, services: &mut Services) -> Next {
        let is_owner = self.ownership == Ownership::Owner;
        let leaves = is_owner && rest != Rest::Active;
        let has_rows = decided.answered.iter().any(|(envelope, _)| envelope.inbox.is_some());
        // Only the owner renews the rows of waits. Two guests would write the same rows at the same time, and no gate
        // would reject either.
        let renews_waits = self.waits.must_renew() && is_owner;
        // The row of a fork has no place of a machine before its first item.
        let renews_row = is_owner && self.is_row_behind(self.format_of(&decided.entries));
        if decided.entries.is_empty() && decided.kept.is_empty() && !has_rows && !leaves && !renews_waits && !renews_row
        {
            if self.may_be_behind(&decided, services) {
                return self.read_again(decided.answered);
            }
            self.answer_unwritten(decided, services);
            self.send_turn(Rest::Active, false, &[], services);
            // Inputs that wrote nothing have used the fuel, so that no commit continues with the others.
            return if self.mailbox.is_empty() { self.rest(services) } else { self.wait_for_turn(services) };
        }
        let rest = if rest == Rest::Active { self.find_place(&decided, now, services) } else { rest };
        if planted::is_planted(Bug::DispatchBeforeCommit) {
            let steps = decided.entries.iter().filter_map(|entry| entry.event.step());
            let dispatched: Vec<_> = steps.map(|(step, attempt)| (step.clone(), attempt)).collect();
            self.dispatch(&dispatched, services);
        }
        if planted::is_planted(Bug::TurnBeforeCommit) {
            self.send_turn(Rest::Active, false, &[], services);
        }
        if planted::is_planted(Bug::WaitMissedWhileOpening) {
            self.start_look_backs(services);
        }
        let writer = services.writer(now);
        let (item, bytes, in_flight) = propose::propose(self, decided, None, rest, &writer);
        if planted::is_planted(Bug::EventPublishedBeforeCommit) {
            services.publish_early(&in_flight.published);
        }
        self.in_flight = Some(in_flight);
        services.submit(item, bytes);
        if self.mailbox.has_request_to_end() {
            self.withdraw(services);
        }
        Next::Keep
    }

    /// The run is to end: if its item in flight waits for space, the committer returns it.
    fn withdraw(&mut self, services: &Services) {
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.is_withdrawn = true;
            services.shared.withdraw(self.state.run);
        }
    }

    /// A guest that stays in memory becomes this node's run with its next item, so it needs a permit. Without one the
    /// item is written and its callers receive their replies, but the run is due at once: a claim takes it when a
    /// permit is free.
    ///
    /// An item that dispatches a task is the exception. The node that dispatches a task performs it; writing the
    /// dispatch and releasing the run would cost the task an attempt. Recording the input without its consequences
    /// would lose the next signal: the wait for it would not be open yet.
    fn find_place(&mut self, decided: &Decided, now: Timestamp, services: &Services) -> Rest {
        if self.has_place(services) {
            return Rest::Active;
        }
        if decided.entries.iter().any(|entry| propose::begins_task(&self.state, entry)) {
            self.permits.held = Some(services.permit().assign(self.workspace));
            return Rest::Active;
        }
        Rest::Parked(now)
    }

    /// Whether the run has a permit on this node, or gets one now.
    pub(super) fn has_place(&mut self, services: &Services) -> bool {
        if self.permits.held.is_none() {
            self.permits.held = services.try_permit(&self.lane, self.workspace);
        }
        self.permits.held.is_some()
    }

    /// Whether another node may have written after this one has read the run, and before an input arrived that would be
    /// answered now. A repeated request could be refused that was accepted before. No gate is checked, because nothing is
    /// written.
    fn may_be_behind(&self, decided: &Decided, services: &Services) -> bool {
        self.ownership == Ownership::Guest
            && services.world.runs.is_shared()
            && decided.answered.iter().any(|(envelope, _)| envelope.is_late)
    }

    /// Replies to inputs that write nothing. No gate is checked: the state here is certainly the newest only while no
    /// other node can own the run.
    fn answer_unwritten(&self, decided: Decided, services: &Services) {
        let is_sure = self.ownership == Ownership::Guest || services.may_dispatch();
        for (envelope, reply) in decided.answered {
            let unsure = || Error::Busy("this node has lost the connection to its database; try again".to_owned());
            envelope.answer(if is_sure { Ok(reply) } else { Err(unsure()) });
        }
    }

    /// Nothing is left to decide: a guest leaves, an owned run waits for its timer.
    pub(super) fn rest(&mut self, services: &mut Services) -> Next {
        if self.ownership == Ownership::Guest {
            return Next::Park;
        }
        services.schedule.set(self);
        Next::Keep
    }
}
