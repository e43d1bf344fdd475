//! A follower of the workspace: it reads the feed of a server once a second, and the list of runs after every gap.

use std::collections::BTreeMap;
use std::time::Duration;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_engine::WorkspaceFeed;
use everstep_store::RunFilter;

use super::client::Client;
use super::executor::BEGIN;

const PERIOD: Duration = Duration::from_secs(1);
/// Pages without a gap after which the feed is in order: it repeats a gap before that.
const ORDERED_PAGES: u32 = 5;
/// More than a simulation has runs.
const RUNS_MAX: usize = 1_000;

/// The statuses that a follower knows.
pub(super) struct Followed {
    statuses: BTreeMap<RunId, Status>,
    /// When it began the last round in which all nodes replied and the feed was in order.
    complete_at: Timestamp,
}

impl Followed {
    pub(super) fn new() -> Self {
        Self { statuses: BTreeMap::new(), complete_at: BEGIN }
    }
}

impl Client {
    /// Follows the workspace at any server, and at another one when the server is gone.
    pub(super) async fn follow_workspace(self) {
        let mut feed: Option<(usize, WorkspaceFeed)> = None;
        let mut pages_without_gap = 0;
        loop {
            self.executor.sleep(PERIOD).await;
            let begun_at = self.executor.now();
            let (index, known) = match feed.take() {
                Some((index, feed)) => (index, Some(feed)),
                None => (self.server().index, None),
            };
            let is_new = known.is_none();
            let asked = self.servers[index].ask(move |engine| async move {
                let mut feed = known.unwrap_or_else(|| WorkspaceFeed::new(WorkspaceId::DEFAULT));
                let page = feed.read(&engine).await;
                (feed, page)
            });
            // The connection is lost with the process, and so are the updates that it would have sent.
            let Some((read, page)) = asked.await else { continue };
            feed = Some((index, read));
            let listed = (is_new || page.has_gap).then(|| self.list());
            let mut ledger = self.judge.store.ledger();
            let Some(followed) = &mut ledger.feed else { return };
            match listed {
                Some(listed) => followed.statuses = listed,
                None => followed.statuses.extend(page.updates.iter().map(|update| (update.run, update.status))),
            }
            pages_without_gap = if is_new || page.has_gap { 0 } else { pages_without_gap + 1 };
            if page.silent.is_empty() && pages_without_gap >= ORDERED_PAGES {
                followed.complete_at = begun_at;
            }
        }
    }

    /// The list of runs, as the database has it now.
    fn list(&self) -> BTreeMap<RunId, Status> {
        let filter = RunFilter::default();
        let read = |db: &mut everstep_store::sqlite::Database| {
            db.list_runs(WorkspaceId::DEFAULT, &filter, None, RUNS_MAX).expect("the database is in memory")
        };
        self.judge.store.direct(read).runs.into_iter().map(|row| (row.id, row.status)).collect()
    }
}

/// Whether the follower, if there is one, has read all nodes since a time.
pub(super) fn has_read_since(followed: Option<&Followed>, since: Timestamp) -> bool {
    followed.is_none_or(|followed| followed.complete_at > since)
}

/// The follower knows the last status of every run.
pub(super) fn check(followed: Option<&Followed>, run: RunId, status: Status) -> Result<(), String> {
    let Some(followed) = followed else { return Ok(()) };
    match followed.statuses.get(&run) {
        Some(known) if *known == status => Ok(()),
        Some(known) => Err(format!("{run} is {status}, and the feed of the workspace reported {known}")),
        None => Err(format!("{run} is {status}, and the feed of the workspace did not report it")),
    }
}
