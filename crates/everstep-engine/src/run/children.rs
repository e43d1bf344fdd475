//! The child runs of a run: which exist, and which are being started.
//!
//! The entry that dispatches a step contains the child's id, so a start can be repeated safely. **Invariant**: a run
//! does not park before all its children are known to exist. Nothing else would start them.

use std::collections::BTreeSet;

use everstep_core::ids::RunId;
use everstep_core::run::{Input, OpenActivity, State};

use super::active::ActiveRun;
use super::call::Call;
use crate::shard::Services;

/// The known state of the children of a run.
#[derive(Default)]
pub(crate) struct Children {
    /// Children whose start is in progress or done.
    called: BTreeSet<RunId>,
    /// Children that exist.
    born: BTreeSet<RunId>,
}

impl Children {
    pub(super) fn exists(&mut self, child: RunId) {
        self.born.insert(child);
    }

    /// Records that all open children exist: a parked run had started them.
    pub(super) fn all_exist(&mut self, state: &State) {
        if state.has_open_children() {
            self.born.extend(open_children(state));
        }
    }

    /// Whether a child may not exist.
    pub(super) fn are_missing(&self, state: &State) -> bool {
        state.has_open_children() && !state.is_paused() && open_children(state).any(|run| !self.born.contains(&run))
    }

    /// Removes a child whose step is no longer open.
    pub(super) fn forget_settled(&mut self, state: &State, input: &Input) {
        if let Input::ChildStarted { step, attempt, child } | Input::ChildEnded { step, attempt, child, .. } = input
            && state.parent_of(step, *attempt).is_none()
        {
            self.born.remove(child);
            self.called.remove(child);
        }
    }
}

fn open_children(state: &State) -> impl Iterator<Item = RunId> {
    state.open().filter_map(|open| match open.activity {
        OpenActivity::Child(child) => Some(child.run),
        OpenActivity::Task
        | OpenActivity::Wait { .. }
        | OpenActivity::Delay { .. }
        | OpenActivity::Backoff { .. }
        | OpenActivity::Body { .. }
        | OpenActivity::Soon => None,
    })
}

impl ActiveRun {
    /// Starts the children that may not exist.
    pub(super) fn start_children(&mut self, services: &Services) {
        if !self.state.has_open_children() || self.state.has_ended() {
            return;
        }
        let ended = self.mailbox.ended_children();
        for open in self.state.open() {
            let OpenActivity::Child(child) = open.activity else { continue };
            // A paused run begins no delivery.
            if self.state.is_paused() && self.state.is_delivery(open.step) {
                continue;
            }
            let is_known = self.children.born.contains(&child.run) || ended.contains(&child.run);
            if is_known || !self.children.called.insert(child.run) {
                continue;
            }
            let Some(cause) = self.state.cause_of(open.step, open.attempt) else { continue };
            let Some(parent) = cause.parent.clone() else { continue };
            let call = Call::new(self, child.clone(), cause, parent, services);
            services.world.spawn.spawn(Box::pin(call.perform()));
        }
    }
}
