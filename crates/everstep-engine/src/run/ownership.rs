//! Whether this node owns a run, and the permits that count it.

use crate::node::permits::RunPermit;

/// Whether this node may decide for a run as its owner. It selects the gate of the run's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    Owner,
    /// No node owns the run. It is in memory to answer an input, and leaves afterwards.
    Guest,
}

/// The permits of a run.
#[derive(Default)]
pub(crate) struct Permits {
    /// Counts the run as this node's while it is the owner.
    pub(super) held: Option<RunPermit>,
    /// The permit of a claim that was made while the run was in memory. The run must be loaded again: the state here
    /// may be older than the claim.
    pub(super) claim: Option<RunPermit>,
}

impl Permits {
    /// The permit for a run that is loaded again: the newer one, if there are two.
    pub(super) fn take_newest(&mut self) -> Option<RunPermit> {
        let held = self.held.take();
        self.claim.take().or(held)
    }
}
