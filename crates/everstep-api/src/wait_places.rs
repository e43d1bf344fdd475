//! The maximum number of requests that wait for the end of a run or of a fan-out: each holds a connection.
//!
//! A request that finds no place is not rejected. It does not wait: its response has the present state, as after a wait
//! that has ended.

use std::time::Duration;

use everstep_core::fair_share::ShareBounds;
use everstep_core::ids::WorkspaceId;
use everstep_handlers::{Place, Places};

/// The places of requests with `waitSeconds`. Workspaces share them.
pub struct WaitPlaces(Places);

impl WaitPlaces {
    /// Three quarters of the connections of a node may wait; those of one workspace are at most half of the connections.
    pub fn new(connections_max: usize) -> Self {
        let connections = (connections_max as u64).max(4);
        let bounds = ShareBounds { workspace_max: connections / 2, ..ShareBounds::new(connections - connections / 4) };
        Self(Places::new(bounds))
    }

    /// The time for which a request may wait, and its place. The time is zero if there is no place.
    pub(crate) fn enter(&self, workspace: WorkspaceId, wait: Duration) -> (Duration, Option<Place>) {
        if wait.is_zero() {
            return (wait, None);
        }
        match self.0.try_acquire(workspace, (), 1) {
            Some(place) => (wait, Some(place)),
            None => (Duration::ZERO, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::time::Timestamp;

    use super::*;

    #[test]
    fn the_waits_of_a_workspace_leave_connections_for_others() {
        const WAIT: Duration = Duration::from_secs(30);
        let polls = WaitPlaces::new(1_000);
        let [hog, other] = [1, 2].map(|number| WorkspaceId::new(Timestamp::EPOCH, number));
        let enter = |workspace: WorkspaceId| polls.enter(workspace, WAIT);
        assert!(matches!(polls.enter(hog, Duration::ZERO), (Duration::ZERO, None)), "it does not wait");
        let held: Vec<_> = (0..500).map(|_| enter(hog)).collect();
        assert!(held.iter().all(|(wait, place)| *wait == WAIT && place.is_some()));
        assert!(matches!(enter(hog), (Duration::ZERO, None)), "half of the connections");
        let of_other: Vec<_> = (0..64).map(|_| enter(other)).collect();
        assert!(of_other.iter().all(|(wait, _)| *wait == WAIT));
        drop(held);
        assert_eq!(enter(hog).0, WAIT);
    }
}
