//! Measures which part of a node delays the writes of runs.
//!
//! A request to a run passes a shard, the committer and the database. When a caller has waited for too long, each of
//! them is measured at that moment: the age of the batches that the database has not answered, the age of the oldest
//! items that wait for the committer, and the time in which the shards answer a message.
//!
//! It also records whether several workspaces use the node: then transactions are short, so that none waits long for
//! another's.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use everstep_core::ids::WorkspaceId;
use futures_util::future::{self, Either};
use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::shard::ToShard;

/// A component that takes this long is slow.
const SLOW: Duration = Duration::from_secs(1);

/// The time for which workspaces count as using a node together after the last change from one to another.
const SHARED_PERIOD: Duration = Duration::from_secs(1);

/// A part of a node that the write of a run passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    Shard,
    Committer,
    Database,
}

/// The times of the committer and the database, on the monotonic clock.
#[derive(Default)]
pub(crate) struct Pace {
    /// Since when items wait for the committer, in microseconds. Without meaning while none waits.
    waiting_since: AtomicU64,
    /// Until when several workspaces count as using this node, in microseconds.
    shared_until: AtomicU64,
    batches: Mutex<Batches>,
}

#[derive(Default)]
struct Batches {
    /// When each batch without a reply was sent first.
    sent: BTreeMap<u64, Duration>,
    next: u64,
}

impl Pace {
    /// The first item waits for the committer, or the committer has taken the items before it.
    pub(crate) fn begin_waiting(&self, now: Duration) {
        self.waiting_since.store(micros(now), Ordering::Relaxed);
    }

    /// Work of a workspace has arrived at a loop; `last` is the workspace before it.
    pub(crate) fn note_workspace(&self, last: &mut Option<WorkspaceId>, workspace: WorkspaceId, now: Duration) {
        if last.replace(workspace).is_some_and(|before| before != workspace) {
            self.shared_until.store(micros(now + SHARED_PERIOD), Ordering::Relaxed);
        }
    }

    /// Whether several workspaces use this node.
    pub(crate) fn is_shared(&self, now: Duration) -> bool {
        micros(now) < self.shared_until.load(Ordering::Relaxed)
    }

    /// A batch is sent to the database. Returns its number.
    pub(crate) fn begin_batch(&self, now: Duration) -> u64 {
        let mut batches = self.batches();
        let number = batches.next;
        batches.next += 1;
        batches.sent.insert(number, now);
        number
    }

    /// Every item of a batch has a verdict.
    pub(crate) fn end_batch(&self, number: u64) {
        self.batches().sent.remove(&number);
    }

    fn find_slow(&self, now: Duration, has_waiting: bool) -> Option<Component> {
        let is_slow = |since: Duration| now.saturating_sub(since) >= SLOW;
        if self.batches().sent.values().any(|sent| is_slow(*sent)) {
            return Some(Component::Database);
        }
        let waiting_since = Duration::from_micros(self.waiting_since.load(Ordering::Relaxed));
        (has_waiting && is_slow(waiting_since)).then_some(Component::Committer)
    }

    fn batches(&self) -> MutexGuard<'_, Batches> {
        self.batches.lock().expect("no holder of the lock panics")
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Engine {
    /// Measures which part of this node delays the writes of runs; none if all of them respond. Takes up to a second.
    pub async fn find_slow_component(&self) -> Option<Component> {
        let (member, clock) = (self.member(), &self.world().clock);
        let has_waiting = member.shared.queued.load(Ordering::Relaxed) > 0;
        if let Some(slow) = member.shared.pace.find_slow(clock.monotonic(), has_waiting) {
            return Some(slow);
        }
        let answers = member.shards.iter().map(|shard| {
            let (reply, answer) = oneshot::channel();
            // A shard that has ended answers nothing, at once.
            let _ = shard.send(ToShard::Ping(reply));
            answer
        });
        match future::select(future::join_all(answers), clock.sleep(SLOW)).await {
            Either::Left(_) => None,
            Either::Right(_) => Some(Component::Shard),
        }
    }

    /// Measures whether the database delays writes: it has not answered a batch for a second, or does not answer a query
    /// within a second.
    pub async fn is_database_slow(&self) -> bool {
        let (member, clock) = (self.member(), &self.world().clock);
        if member.shared.pace.find_slow(clock.monotonic(), false).is_some() {
            return true;
        }
        let answered = std::pin::pin!(self.check_database());
        match future::select(answered, clock.sleep(SLOW)).await {
            Either::Left((answer, _)) => answer.is_err(),
            Either::Right(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_component_that_holds_the_oldest_work_is_slow() {
        let (pace, at) = (Pace::default(), Duration::from_secs);
        assert_eq!(pace.find_slow(at(100), false), None, "no item waits");
        pace.begin_waiting(at(100));
        assert_eq!(pace.find_slow(at(100), true), None);
        assert_eq!(pace.find_slow(at(101), true), Some(Component::Committer));
        let (first, second) = (pace.begin_batch(at(101)), pace.begin_batch(at(103)));
        assert_eq!(pace.find_slow(at(103), true), Some(Component::Database));
        pace.end_batch(first);
        assert_eq!(pace.find_slow(at(103), false), None);
        assert_eq!(pace.find_slow(at(104), false), Some(Component::Database));
        pace.end_batch(second);
        assert_eq!(pace.find_slow(at(104), false), None);
    }
}
