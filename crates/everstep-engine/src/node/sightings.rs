//! The nodes that have stopped renewing their lease, as this node has observed.

use std::collections::BTreeMap;
use std::time::Duration;

use everstep_core::ids::NodeId;
use everstep_core::time::Timestamp;
use everstep_store::NodeRow;

/// When is another node fenced?
///
/// 1. Its lease has expired by the database's clock.
/// 2. This node has observed the same lease, in ticks that all succeeded, for one full lease of its own monotonic
///    clock.
///
/// So neither an outage of the database nor a jump of its clock fences a node: after both, every node has the time of a
/// whole lease to renew its own.
pub(crate) struct Sightings {
    lease: Duration,
    /// The lease with which each node was first observed, and when.
    seen: BTreeMap<NodeId, (Timestamp, Duration)>,
    last: Option<Duration>,
}

impl Sightings {
    pub(crate) fn new(lease: Duration) -> Self {
        Self { lease, seen: BTreeMap::new(), last: None }
    }

    /// Records the nodes that a successful tick read. Returns the nodes that must be fenced, with their lease.
    pub(crate) fn record_sightings(&mut self, me: NodeId, nodes: &[NodeRow], at: Duration) -> Vec<(NodeId, Timestamp)> {
        // This node itself was suspended: the others may have been suspended as well.
        if self.last.is_some_and(|last| at.saturating_sub(last) > self.lease / 2) {
            self.seen.clear();
        }
        self.last = Some(at);
        let before = std::mem::take(&mut self.seen);
        let mut over = Vec::new();
        for node in nodes.iter().filter(|node| node.id != me && !node.fenced) {
            let since = match before.get(&node.id) {
                Some((lease_until, since)) if *lease_until == node.lease_until => *since,
                _ => at,
            };
            self.seen.insert(node.id, (node.lease_until, since));
            if node.is_expired && at.saturating_sub(since) >= self.lease {
                over.push((node.id, node.lease_until));
            }
        }
        over
    }

    /// A tick has failed: a node that was not observed may have been alive.
    pub(crate) fn forget(&mut self) {
        self.seen.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn node(id: u128, lease_until: i64, is_expired: bool) -> NodeRow {
        NodeRow {
            id: NodeId::new(Timestamp::EPOCH, id),
            lease_until: Timestamp::from_micros(lease_until),
            fenced: false,
            is_expired,
            address: None,
        }
    }

    fn me() -> NodeId {
        NodeId::new(Timestamp::EPOCH, 1)
    }

    /// The seconds at which the other node is fenced, when it shows `row`.
    fn watch(sightings: &mut Sightings, seconds: std::ops::Range<u64>, row: &NodeRow) -> Vec<u64> {
        let is_over = |second: &u64| {
            let nodes = [node(1, 5, false), row.clone()];
            !sightings.record_sightings(me(), &nodes, Duration::from_secs(*second)).is_empty()
        };
        seconds.filter(is_over).collect()
    }

    #[test]
    fn a_lease_that_stays_the_same_for_a_lease_is_over() {
        let mut sightings = Sightings::new(LEASE);
        assert_eq!(watch(&mut sightings, 0..12, &node(2, 7, true)), [10, 11]);
    }

    #[test]
    fn a_lease_that_runs_by_the_clock_of_the_database_has_not_expired() {
        let mut sightings = Sightings::new(LEASE);
        assert!(watch(&mut sightings, 0..30, &node(2, 7, false)).is_empty());
    }

    #[test]
    fn a_renewed_lease_restarts_the_watch() {
        let mut sightings = Sightings::new(LEASE);
        assert!(watch(&mut sightings, 0..9, &node(2, 7, true)).is_empty());
        assert_eq!(watch(&mut sightings, 9..21, &node(2, 8, true)), [19, 20]);
    }

    #[test]
    fn a_failed_tick_restarts_the_watch() {
        let mut sightings = Sightings::new(LEASE);
        assert!(watch(&mut sightings, 0..9, &node(2, 7, true)).is_empty());
        sightings.forget();
        assert_eq!(watch(&mut sightings, 9..21, &node(2, 7, true)), [19, 20]);
    }

    #[test]
    fn a_node_that_was_suspended_restarts_the_watch() {
        let mut sightings = Sightings::new(LEASE);
        assert!(watch(&mut sightings, 0..3, &node(2, 7, true)).is_empty());
        assert_eq!(watch(&mut sightings, 20..31, &node(2, 7, true)), [30]);
    }

    #[test]
    fn neither_ourselves_nor_the_fenced_are_fenced() {
        let mut sightings = Sightings::new(LEASE);
        let fenced = NodeRow { fenced: true, ..node(2, 7, true) };
        assert!(watch(&mut sightings, 0..30, &fenced).is_empty());
        let mut sightings = Sightings::new(LEASE);
        assert!(watch(&mut sightings, 0..30, &node(1, 7, true)).is_empty());
    }
}
