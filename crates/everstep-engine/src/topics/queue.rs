//! The events whose fan-out this node continues, workspaces in turn.
//!
//! The queue is bounded, and the workspaces share its places. An event that finds no place is dropped here: its row is open, so a search in the database finds
//! it. The queue records that a search is necessary, and the loop searches as soon as there is a place.

use std::collections::BTreeSet;
use std::sync::Mutex;

use everstep_core::fair_share::{FairShare, ShareBounds};
use everstep_core::ids::EventId;
use everstep_store::EventRow;
use tokio::sync::Notify;

use crate::workspace_queue::WorkspaceQueue;

/// The size of the queue.
const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// A smaller event counts as so many bytes: the queue has at most 4,096 events.
const EVENT_BYTES_MIN: u64 = 4 * 1024;
/// The greatest number of rows of a slice.
pub(crate) const SLICE_ROWS_MAX: usize = 500;
/// The data of an event is written once per row, so a slice of a large event has fewer rows.
const SLICE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// An event whose fan-out is not done.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OpenEvent {
    pub(super) row: EventRow,
    /// The greatest number of rows of its next slice.
    pub(super) rows_max: usize,
    /// Whether this node has sent a slice whose outcome is unknown.
    pub(super) is_unsure: bool,
}

impl OpenEvent {
    pub(super) fn new(row: EventRow) -> Self {
        let rows_max = (SLICE_BYTES_MAX / row.event.size().max(1)).clamp(1, SLICE_ROWS_MAX);
        Self { row, rows_max, is_unsure: false }
    }
}

/// Events that wait for their fan-out.
#[derive(Default)]
pub(crate) struct EventQueue {
    waiting: Mutex<Waiting>,
    /// An event was added, or a search was requested.
    changed: Notify,
}

struct Waiting {
    events: WorkspaceQueue<OpenEvent>,
    ids: BTreeSet<EventId>,
    /// The bytes of the events.
    share: FairShare<(), ()>,
    search: Option<Search>,
}

impl Default for Waiting {
    fn default() -> Self {
        let share = FairShare::new(ShareBounds::new(BYTES_MAX));
        Self { events: WorkspaceQueue::default(), ids: BTreeSet::new(), share, search: None }
    }
}

/// Which open events a search finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Search {
    /// Those that no node seems to continue, because they are older than a few seconds.
    Stalled,
    /// All of them: this node has dropped some, or has just started.
    All,
}

impl EventQueue {
    /// Adds events. Those that are here already, or for which there is no place, are dropped.
    pub(crate) fn add(&self, rows: impl IntoIterator<Item = EventRow>) {
        self.put_back(rows.into_iter().map(OpenEvent::new));
    }

    /// Adds events whose fan-out has begun.
    pub(super) fn put_back(&self, events: impl IntoIterator<Item = OpenEvent>) {
        let mut waiting = self.waiting.lock().expect("no holder of the lock panics");
        for event in events {
            waiting.add(event);
        }
        drop(waiting);
        self.changed.notify_one();
    }

    /// Requests a search for events that no node seems to continue.
    pub(crate) fn search_stalled(&self) {
        self.search(Search::Stalled);
    }

    pub(super) fn search(&self, search: Search) {
        let mut waiting = self.waiting.lock().expect("no holder of the lock panics");
        waiting.search = waiting.search.max(Some(search));
        drop(waiting);
        self.changed.notify_one();
    }

    /// Waits until an event was added or a search was requested.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes at most so many events and bytes, and at least one event if any waits; one of each workspace in turn.
    pub(super) fn take(&self, limit: usize, bytes_max: usize) -> Vec<OpenEvent> {
        let mut waiting = self.waiting.lock().expect("no holder of the lock panics");
        let mut taken: Vec<OpenEvent> = Vec::new();
        let mut bytes = 0;
        while taken.len() < limit && bytes < bytes_max {
            let Some(event) = waiting.next() else { break };
            bytes += event.row.event.size();
            taken.push(event);
        }
        taken
    }

    /// Takes the search that was requested. A search for dropped events waits until there is a place for them.
    pub(super) fn take_search(&self) -> Option<Search> {
        let mut waiting = self.waiting.lock().expect("no holder of the lock panics");
        let has_place = waiting.share.used() < BYTES_MAX / 2;
        match waiting.search? {
            Search::All if !has_place => None,
            Search::All | Search::Stalled => waiting.search.take(),
        }
    }
}

impl Waiting {
    fn add(&mut self, open: OpenEvent) {
        let event = &open.row.event;
        if self.ids.contains(&event.id) {
            return;
        }
        let (workspace, amount) = (event.workspace, amount(&open));
        if !self.share.try_take(workspace, &(), amount) {
            // A search begins with the oldest events, which may be many of another workspace. So the first event of a
            // workspace has a place in a full queue, up to twice its size.
            let has_place = !self.events.has(workspace) && self.share.used() < 2 * BYTES_MAX;
            if !has_place && !self.ids.is_empty() {
                self.share.introduce(workspace);
                self.search = Some(Search::All);
                return;
            }
            self.share.take_regardless(workspace, &(), amount);
        }
        self.ids.insert(event.id);
        self.events.push_back(workspace, open);
    }

    fn next(&mut self) -> Option<OpenEvent> {
        let open = self.events.pop_front()?;
        self.share.release(open.row.event.workspace, &(), amount(&open));
        self.ids.remove(&open.row.event.id);
        Some(open)
    }
}

/// The bytes that an event takes in the queue.
fn amount(open: &OpenEvent) -> u64 {
    (open.row.event.size() as u64).max(EVENT_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use everstep_core::ids::WorkspaceId;
    use everstep_core::payload::Payload;
    use everstep_core::time::Timestamp;
    use everstep_core::topics::TopicEvent;
    use uuid::Uuid;

    use super::*;

    fn row(workspace: u128, number: u128, bytes: usize) -> EventRow {
        EventRow::open(TopicEvent {
            id: EventId::new(Timestamp::EPOCH, number),
            workspace: WorkspaceId::from_uuid(Uuid::from_u128(workspace)),
            topic: "a".to_owned(),
            source: "test".to_owned(),
            event_id: number.to_string(),
            at: Timestamp::EPOCH,
            data: Payload::from(serde_json::json!("x".repeat(bytes))),
            depth: 0,
            subject: None,
            extensions: None,
            replay_of: None,
        })
    }

    fn taken(queue: &EventQueue, limit: usize) -> Vec<u128> {
        queue.take(limit, usize::MAX).iter().map(|open| open.row.event.event_id.parse().unwrap()).collect()
    }

    #[test]
    fn workspaces_take_turns() {
        let queue = EventQueue::default();
        queue.add([row(1, 1, 1), row(1, 2, 1), row(1, 3, 1), row(2, 4, 1), row(3, 5, 1), row(3, 6, 1)]);
        assert_eq!(taken(&queue, 4), [1, 4, 5, 2]);
        queue.add([row(2, 7, 1)]);
        assert_eq!(taken(&queue, 10), [6, 3, 7]);
    }

    #[test]
    fn an_event_that_waits_is_not_added_again() {
        let queue = EventQueue::default();
        queue.add([row(1, 1, 1), row(1, 1, 1)]);
        assert_eq!(taken(&queue, 10), [1]);
        queue.add([row(1, 1, 1)]);
        assert_eq!(taken(&queue, 10), [1]);
    }

    #[test]
    fn a_workspace_with_many_events_leaves_places_to_others() {
        let queue = EventQueue::default();
        queue.add((0..20_000).map(|number| row(1, number, 1)));
        // The queue is full, and the other workspace was not known.
        queue.add([row(2, 20_000, 1)]);
        assert_eq!(taken(&queue, 3_000)[..2], [0, 20_000]);
        queue.add((20_001..40_000).map(|number| row(1, number, 1)));
        queue.add((40_000..40_010).map(|number| row(2, number, 1)));
        let of_other = taken(&queue, 20).into_iter().filter(|number| *number >= 40_000).count();
        assert_eq!(of_other, 10);
    }

    #[test]
    fn events_without_a_place_are_searched_when_there_is_one() {
        let queue = EventQueue::default();
        queue.add((0..20).map(|number| row(1, number, 1024 * 1024)));
        assert_eq!(queue.take_search(), None, "the queue is full");
        let kept = taken(&queue, 100);
        assert!((14..16).contains(&kept.len()), "{}", kept.len());
        queue.search_stalled();
        assert_eq!(queue.take_search(), Some(Search::All));
        assert_eq!(queue.take_search(), None);
    }
}
