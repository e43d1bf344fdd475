//! The runs of a workspace that have started or changed their status on this node, for followers of the workspace.
//!
//! 1. Nothing is gathered for a workspace without followers: a reader renews its interest with every read.
//! 2. Updates are numbered. A reader continues after the number that it has read; a later update of the same run
//!    replaces an earlier one.
//! 3. A reader that is too late, or whose numbers are those of another process, learns that it has missed updates.
//! 4. An update that is gathered long after its item was decided may be older than an update of another node that was read
//!    before, so that it is reported as missing.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::observe::CommittedItem;

/// Updates are gathered for this long after a read.
const INTEREST_LIFETIME: Duration = Duration::from_secs(10);
/// The maximum number of runs whose updates are held, per workspace.
const HELD_RUNS_MAX: usize = 1_000;
/// A change whose commit takes longer than this is late.
const LATE_AFTER: Duration = Duration::from_secs(1);

/// The status of a run that has started or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusUpdate {
    pub run: RunId,
    pub workflow: String,
    #[serde(with = "status_word")]
    pub status: Status,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// The seq of the last entry with this status: of two updates of a run, the one with the higher seq is the later one.
    pub seq: u64,
}

/// The position of a reader in the updates of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedCursor {
    /// Another number after a restart of the node, and after it has lost updates.
    epoch: u64,
    number: u64,
}

/// The updates after a cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeedPage {
    pub updates: Vec<StatusUpdate>,
    pub cursor: FeedCursor,
    /// Whether updates are missing.
    pub has_gap: bool,
}

/// The gathered updates of a node.
#[derive(Default)]
pub(crate) struct StatusFeed {
    /// Whether any workspace is followed: items are compared with nothing else.
    is_followed: AtomicBool,
    workspaces: Mutex<HashMap<WorkspaceId, Gathered>>,
}

struct Gathered {
    epoch: u64,
    /// The number of the last update.
    last: u64,
    /// The number up to which updates were dropped.
    dropped: u64,
    updates: BTreeMap<u64, StatusUpdate>,
    numbers: HashMap<RunId, u64>,
    /// The monotonic time at which the last interest expires.
    until: Duration,
}

impl StatusFeed {
    /// Gathers the change of status in an item.
    pub(crate) fn gather(&self, item: &CommittedItem<'_>, now: impl FnOnce() -> Timestamp) {
        if item.is_test || item.before == Some(item.after) || !self.is_followed.load(Ordering::Relaxed) {
            return;
        }
        let last = item.entries.last();
        if last.is_some_and(|entry| now().since(entry.at) > LATE_AFTER) {
            return self.miss(item.workspace);
        }
        let ended_at = last.map(|entry| entry.at).filter(|_| item.after.has_ended());
        if let Some(gathered) = self.lock().get_mut(&item.workspace) {
            gathered.add(StatusUpdate {
                run: item.run,
                workflow: item.workflow.to_owned(),
                status: item.after,
                created_at: item.created_at,
                ended_at,
                seq: last.map_or(0, |entry| entry.seq),
            });
        }
    }

    /// Reports that an update is missing.
    fn miss(&self, workspace: WorkspaceId) {
        if let Some(gathered) = self.lock().get_mut(&workspace) {
            gathered.miss();
        }
    }

    /// Gathers the update of a run that was created without an item.
    pub(crate) fn add_created(&self, workspace: WorkspaceId, now: Timestamp, update: impl FnOnce() -> StatusUpdate) {
        if let Some(gathered) = self.lock().get_mut(&workspace) {
            let update = update();
            if now.since(update.created_at) > LATE_AFTER { gathered.miss() } else { gathered.add(update) }
        }
    }

    /// This node may have lost updates: all readers learn of a gap.
    pub(crate) fn forget(&self) {
        self.lock().clear();
    }

    /// The updates after a cursor. Without a cursor, gathering begins.
    fn read(&self, workspace: WorkspaceId, after: Option<FeedCursor>, now: Duration, epoch: u64) -> FeedPage {
        let mut workspaces = self.lock();
        workspaces.retain(|_, gathered| gathered.until > now);
        let gathered = workspaces.entry(workspace).or_insert_with(|| Gathered::new(epoch));
        gathered.until = now + INTEREST_LIFETIME;
        self.is_followed.store(true, Ordering::Relaxed);
        gathered.page(after)
    }

    /// Ends gathering when the last interest has expired.
    pub(crate) fn expire(&self, now: Duration) {
        let mut workspaces = self.lock();
        workspaces.retain(|_, gathered| gathered.until > now);
        self.is_followed.store(!workspaces.is_empty(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Gathered>> {
        self.workspaces.lock().expect("no holder of the lock panics")
    }
}

impl Gathered {
    fn new(epoch: u64) -> Self {
        Self { epoch, last: 0, dropped: 0, updates: BTreeMap::new(), numbers: HashMap::new(), until: Duration::ZERO }
    }

    /// Adds an update, unless a later one of the same run was added: a run that the fan-out creates may be claimed and
    /// may end before the fan-out receives the reply to its slice.
    fn add(&mut self, update: StatusUpdate) {
        let known = self.numbers.get(&update.run).and_then(|number| self.updates.get(number));
        if known.is_some_and(|known| known.seq > update.seq) {
            return;
        }
        self.last += 1;
        if let Some(before) = self.numbers.insert(update.run, self.last) {
            self.updates.remove(&before);
        }
        self.updates.insert(self.last, update);
        if self.updates.len() > HELD_RUNS_MAX
            && let Some((number, oldest)) = self.updates.pop_first()
        {
            self.numbers.remove(&oldest.run);
            self.dropped = number;
        }
    }

    fn miss(&mut self) {
        self.last += 1;
        self.dropped = self.last;
    }

    fn page(&self, after: Option<FeedCursor>) -> FeedPage {
        let cursor = FeedCursor { epoch: self.epoch, number: self.last };
        let Some(after) = after else { return FeedPage { updates: Vec::new(), cursor, has_gap: false } };
        let is_known = after.epoch == self.epoch;
        let has_gap = !is_known || after.number < self.dropped;
        let from = if is_known { after.number } else { 0 };
        FeedPage {
            updates: self.updates.range(from + 1..).map(|(_, update)| update.clone()).collect(),
            cursor,
            has_gap,
        }
    }
}

impl Engine {
    /// The runs of a workspace whose status has changed on this node after a cursor. The first read, without a cursor,
    /// returns none; a reader that pauses for ten seconds learns of a gap.
    pub fn status_updates(&self, workspace: WorkspaceId, after: Option<FeedCursor>) -> FeedPage {
        let world = self.world();
        let epoch = u64::try_from(world.random.next() >> 64).unwrap_or_default();
        self.tally().feed.read(workspace, after, world.clock.monotonic(), epoch)
    }
}

/// A status as its word.
mod status_word {
    use everstep_core::status::Status;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(status: &Status, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(status.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Status, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: WorkspaceId = WorkspaceId::DEFAULT;
    const NOW: Duration = Duration::from_secs(100);

    fn update(run: u128, status: Status) -> StatusUpdate {
        let (run, workflow) = (RunId::new(Timestamp::EPOCH, run), "w".to_owned());
        StatusUpdate { run, workflow, status, created_at: Timestamp::EPOCH, ended_at: None, seq: 0 }
    }

    #[test]
    fn a_reader_receives_the_last_status_of_each_run_once() {
        let feed = StatusFeed::default();
        feed.add_created(HERE, Timestamp::EPOCH, || update(1, Status::Running));
        let first = feed.read(HERE, None, NOW, 7);
        assert_eq!((first.updates.len(), first.has_gap), (0, false), "the workspace had no followers before");
        for status in [Status::Running, Status::Waiting] {
            feed.add_created(HERE, Timestamp::EPOCH, || update(1, status));
        }
        feed.add_created(HERE, Timestamp::EPOCH, || update(2, Status::Running));
        let page = feed.read(HERE, Some(first.cursor), NOW, 8);
        assert_eq!(page.updates, [update(1, Status::Waiting), update(2, Status::Running)]);
        assert!(!page.has_gap && feed.read(HERE, Some(page.cursor), NOW, 9).updates.is_empty());
    }

    #[test]
    fn a_late_update_is_a_gap() {
        let feed = StatusFeed::default();
        let first = feed.read(HERE, None, NOW, 7);
        feed.add_created(HERE, Timestamp::EPOCH, || update(1, Status::Running));
        feed.miss(HERE);
        let page = feed.read(HERE, Some(first.cursor), NOW, 8);
        assert!(page.has_gap && page.updates == [update(1, Status::Running)]);
        assert!(!feed.read(HERE, Some(page.cursor), NOW, 8).has_gap);
    }

    #[test]
    fn an_earlier_status_does_not_replace_a_later_one() {
        let feed = StatusFeed::default();
        let first = feed.read(HERE, None, NOW, 7);
        let completed = StatusUpdate { seq: 8, ..update(1, Status::Completed) };
        feed.add_created(HERE, Timestamp::EPOCH, || completed.clone());
        feed.add_created(HERE, Timestamp::EPOCH, || update(1, Status::Pending));
        assert_eq!(feed.read(HERE, Some(first.cursor), NOW, 8).updates, [completed]);
    }

    #[test]
    fn a_created_run_that_is_reported_late_is_a_gap() {
        let feed = StatusFeed::default();
        let first = feed.read(HERE, None, NOW, 7);
        let late = Timestamp::EPOCH.plus(LATE_AFTER + Duration::from_micros(1));
        feed.add_created(HERE, late, || update(1, Status::Pending));
        let page = feed.read(HERE, Some(first.cursor), NOW, 8);
        assert!(page.has_gap && page.updates.is_empty());
    }

    #[test]
    fn a_late_reader_learns_of_the_gap() {
        let feed = StatusFeed::default();
        let first = feed.read(HERE, None, NOW, 7);
        for run in 0..=u128::try_from(HELD_RUNS_MAX).unwrap_or_default() {
            feed.add_created(HERE, Timestamp::EPOCH, || update(run, Status::Running));
        }
        let page = feed.read(HERE, Some(first.cursor), NOW, 8);
        assert!(page.has_gap && page.updates.len() == HELD_RUNS_MAX);
        assert!(!feed.read(HERE, Some(page.cursor), NOW, 8).has_gap);
        // The interest has expired, and so has the epoch.
        assert!(feed.read(HERE, Some(page.cursor), NOW * 2, 8).has_gap);
        feed.expire(NOW * 9);
        assert!(!feed.is_followed.load(Ordering::Relaxed));
    }
}
