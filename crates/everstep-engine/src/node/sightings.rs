//! Which nodes have stopped renewing their lease, as this node has seen it itself.

use std::collections::BTreeMap;
use std::time::Duration;

use everstep_core::ids::NodeId;
use everstep_core::time::Timestamp;
use everstep_store::NodeRow;

/// When is another node fenced?
///
/// 1. Its lease is over by the database's clock.
/// 2. We have seen the same lease, in ticks that all succeeded, through one full lease of our own monotonic clock.
///
/// So neither an outage of the database nor a jump of its clock fences anybody: after both everybody has the time
/// of a whole lease to be seen again.
pub(crate) struct Sightings {
    lease: Duration,
    /// The lease that each node was first seen with, and when.
    seen: BTreeMap<NodeId, (Timestamp, Duration)>,
    last: Option<Duration>,
}

impl Sightings {
    pub(crate) fn new(lease: Duration) -> Self {
        Self { lease, seen: BTreeMap::new(), last: None }
    }

    /// Records the nodes that a successful tick read. Returns the nodes that are to be fenced, with the lease they had.
    pub(crate) fn record_sightings(&mut self, me: NodeId, nodes: &[NodeRow], at: Duration) -> Vec<(NodeId, Timestamp)> {
        // We were asleep ourselves: so may everybody have been.
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

    /// A tick has failed: whoever was not seen may have been alive.
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

    /// What is fenced at each second, when the other node shows `row`.
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
    fn a_lease_that_the_database_says_is_running_is_not_over() {
        let mut sightings = Sightings::new(LEASE);
        assert!(watch(&mut sightings, 0..30, &node(2, 7, false)).is_empty());
    }

    #[test]
    fn a_renewed_lease_is_watched_anew() {
        let mut sightings = Sightings::new(LEASE);
        assert!(watch(&mut sightings, 0..9, &node(2, 7, true)).is_empty());
        assert_eq!(watch(&mut sightings, 9..21, &node(2, 8, true)), [19, 20]);
    }

    #[test]
    fn a_failed_tick_begins_the_watch_anew() {
        let mut sightings = Sightings::new(LEASE);
        assert!(watch(&mut sightings, 0..9, &node(2, 7, true)).is_empty());
        sightings.forget();
        assert_eq!(watch(&mut sightings, 9..21, &node(2, 7, true)), [19, 20]);
    }

    #[test]
    fn whoever_slept_itself_begins_the_watch_anew() {
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
