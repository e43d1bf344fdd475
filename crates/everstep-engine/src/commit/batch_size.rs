//! The number of items of a batch.
//!
//! A workspace alone gets batches as large as possible: one transaction for many items is cheaper than several. While
//! several workspaces write, a batch takes about [`SHARED_BATCH_TIME`]: an item of one workspace waits for the batch in
//! progress, which may be full of another's items, and a run waits in this way for each of its steps.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everstep_core::ids::WorkspaceId;

use crate::pace::Pace;

pub(crate) const BATCH_ITEMS_MAX: usize = 512;
const BATCH_ITEMS_MIN: usize = 16;
/// The time of a batch while several workspaces write.
const SHARED_BATCH_TIME: Duration = Duration::from_millis(15);

/// Measures how long an item takes.
#[derive(Default)]
pub(crate) struct ItemTime(AtomicU64);

impl ItemTime {
    /// A batch was written.
    pub(crate) fn record(&self, items: usize, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX) / items.max(1) as u64;
        let before = self.0.load(Ordering::Relaxed);
        // A moving average, so that one slow write of the disk does not make the next batches small.
        let average = if before == 0 { nanos } else { before - before / 4 + nanos / 4 };
        self.0.store(average.max(1), Ordering::Relaxed);
    }

    fn items_in(&self, time: Duration) -> usize {
        let nanos = self.0.load(Ordering::Relaxed).max(1);
        let items = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) / nanos;
        usize::try_from(items).unwrap_or(usize::MAX).clamp(BATCH_ITEMS_MIN, BATCH_ITEMS_MAX)
    }
}

/// Decides how many items the next batch may have.
pub(crate) struct BatchSize<'p> {
    last: Option<WorkspaceId>,
    /// Records whether several workspaces use the node.
    pace: &'p Pace,
}

impl<'p> BatchSize<'p> {
    pub(crate) fn new(pace: &'p Pace) -> Self {
        Self { last: None, pace }
    }

    /// An item of a workspace has arrived.
    pub(crate) fn note(&mut self, workspace: WorkspaceId, now: Duration) {
        self.pace.note_workspace(&mut self.last, workspace, now);
    }

    pub(crate) fn items_max(&self, now: Duration, times: &ItemTime) -> usize {
        if self.pace.is_shared(now) { times.items_in(SHARED_BATCH_TIME) } else { BATCH_ITEMS_MAX }
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::time::Timestamp;

    use super::*;

    #[test]
    fn batches_are_short_while_workspaces_write_together() {
        let [one, other] = [1, 2].map(|number| WorkspaceId::new(Timestamp::EPOCH, number));
        let (pace, times, at) = (Pace::default(), ItemTime::default(), Duration::from_millis);
        let mut size = BatchSize::new(&pace);
        times.record(512, at(512));
        size.note(one, at(0));
        size.note(one, at(10));
        assert_eq!(size.items_max(at(10), &times), BATCH_ITEMS_MAX, "a workspace alone");
        size.note(other, at(20));
        assert_eq!(size.items_max(at(20), &times), BATCH_ITEMS_MIN, "an item takes a millisecond");
        (0..40).for_each(|_| times.record(100, at(10)));
        let items = size.items_max(at(30), &times);
        assert!((140..=160).contains(&items), "an item takes 0.1 ms: {items}");
        assert_eq!(size.items_max(at(1_020), &times), BATCH_ITEMS_MAX);
    }
}
