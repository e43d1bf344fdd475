//! The search for the waits that an event resolves.

use everstep_core::contains;
use everstep_core::ids::{RunId, StepKey};
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::topics::{TopicEvent, match_hash};

use super::rows::{MatchingWait, WaitPage, WaitPosition};

/// Shapes that are searched one by one. If the waits for a topic have more, all of them are read by pages.
pub(crate) const SHAPES_MAX: usize = 256;

/// A wait that may be resolved by an event.
pub(crate) struct Candidate {
    pub(crate) position: WaitPosition,
    pub(crate) pattern: Payload,
}

impl Candidate {
    pub(crate) fn new(run: RunId, step: String, hashes: Option<(i64, i64)>, pattern: Payload) -> Self {
        Self { position: WaitPosition { hashes, run, step: StepKey::from(step) }, pattern }
    }
}

/// The hashes of the waits that an event may resolve, by the hash of their shape: `(shape_hash, match_hash)`. Those before
/// `from` were examined by an earlier page, which may have read all waits of the shape.
pub(crate) fn wanted_hashes(event: &TopicEvent, shapes: &[(i64, String)], from: Option<(i64, i64)>) -> Vec<(i64, i64)> {
    let data = event.data.value();
    let wanted = |(shape_hash, shape): &(i64, String)| Some((*shape_hash, match_hash(&event.topic, shape, data)?));
    shapes.iter().filter_map(wanted).filter(|wanted| Some(*wanted) >= from).collect()
}

/// One page of the search. It examines at most `limit` candidates, in the order of their positions.
pub(crate) struct WaitScan<'e> {
    event: &'e TopicEvent,
    /// The number of candidates that may still be examined.
    pub(crate) room: usize,
    page: WaitPage,
    meter: Meter,
}

impl<'e> WaitScan<'e> {
    pub(crate) fn new(event: &'e TopicEvent, limit: usize) -> Self {
        Self { event, room: limit.max(1), page: WaitPage::default(), meter: Meter::new() }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Examines a candidate. The page then ends after it, unless there is room. It also ends when the comparisons have used
    /// the fuel of a decision, because a reader of the database serves all workspaces; the rest is for the next page.
    pub(crate) fn offer(&mut self, candidate: Candidate) {
        if self.is_full() {
            return;
        }
        let Candidate { position, pattern } = candidate;
        self.meter.begin_part();
        let is_match = contains::matches_within(&self.event.data, &pattern, &self.meter);
        self.room = if self.meter.is_spent() { 0 } else { self.room - 1 };
        if self.room == 0 {
            self.page.next = Some(position.clone());
        }
        if is_match {
            self.page.waits.push(MatchingWait { run: position.run, step: position.step.clone(), position });
        }
    }

    pub(crate) fn finish(self) -> WaitPage {
        self.page
    }
}
