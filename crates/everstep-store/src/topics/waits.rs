//! The search for the waits that an event resolves.

use everstep_core::contains;
use everstep_core::ids::{RunId, StepKey};
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

/// The hashes of the waits that an event may resolve, by the hash of their shape: `(shape_hash, match_hash)`.
pub(crate) fn wanted_hashes(event: &TopicEvent, shapes: &[(i64, String)]) -> Vec<(i64, i64)> {
    let data = event.data.value();
    let wanted = |(shape_hash, shape): &(i64, String)| Some((*shape_hash, match_hash(&event.topic, shape, data)?));
    shapes.iter().filter_map(wanted).collect()
}

/// One page of the search. It examines at most `limit` candidates, in the order of their positions.
pub(crate) struct WaitScan<'e> {
    event: &'e TopicEvent,
    /// The number of candidates that may still be examined.
    pub(crate) room: usize,
    page: WaitPage,
}

impl<'e> WaitScan<'e> {
    pub(crate) fn new(event: &'e TopicEvent, limit: usize) -> Self {
        Self { event, room: limit.max(1), page: WaitPage::default() }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Examines a candidate. The page then ends after it, unless there is room.
    pub(crate) fn offer(&mut self, candidate: Candidate) {
        let Candidate { position, pattern } = candidate;
        self.room -= 1;
        if self.room == 0 {
            self.page.next = Some(position.clone());
        }
        if contains::matches(&self.event.data, &pattern) {
            self.page.waits.push(MatchingWait { run: position.run, step: position.step.clone(), position });
        }
    }

    pub(crate) fn finish(self) -> WaitPage {
        self.page
    }
}
