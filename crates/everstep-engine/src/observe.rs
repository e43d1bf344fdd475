//! The port to whoever counts and measures what runs do.

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::journal::Entry;
use everstep_core::run::{Input, Parent, Reply, State};
use everstep_core::status::Status;
use everstep_core::story::{self, Update};
use everstep_core::time::Timestamp;
use everstep_core::workflow::Workflow;

use crate::run::Envelope;

/// Sees what was committed.
///
/// It is called by the loop that owns the run, once per item and after its commit, and nothing goes on for any run of
/// that loop before it returns: it must be cheap and must never block. What it wants to keep it copies, and what takes
/// longer than a few additions it leaves to somebody else.
/// An item whose outcome this node never learned is not seen.
pub trait Observe: Send + Sync {
    fn committed(&self, item: &CommittedItem<'_>);

    /// Ended runs were deleted because their retention is over.
    fn swept(&self, _runs: usize) {}
}

/// One item that was applied.
#[derive(Clone, Copy)]
pub struct CommittedItem<'a> {
    pub run: RunId,
    pub workspace: WorkspaceId,
    pub workflow: &'a str,
    pub version: u32,
    /// The workflow and the state after the item; none when this build cannot read the run.
    pub(crate) folded: Option<(&'a Workflow, &'a State)>,
    /// Test runs are neither listed nor counted.
    pub is_test: bool,
    /// The step that started the run.
    pub parent: Option<&'a Parent>,
    pub started_at: Timestamp,
    /// The status that the run's row had; none for a run that starts with this item.
    pub before: Option<Status>,
    pub after: Status,
    pub entries: &'a [Entry],
    pub(crate) since: &'a [Option<Timestamp>],
    pub(crate) answered: &'a [(Envelope, Reply)],
}

impl CommittedItem<'_> {
    /// The signals that the run has accepted with this item: their names, each with the seq and the time of an entry.
    pub fn signals(&self) -> impl Iterator<Item = (&str, u64, Timestamp)> {
        let accepted = self.answered.iter().filter(|(_, reply)| matches!(reply, Reply::Accepted | Reply::Buffered));
        let names = accepted.filter_map(|(envelope, _)| {
            let (Input::Signal { event, .. } | Input::BufferedSignal { event, .. }) = &envelope.input else {
                return None;
            };
            Some(event.as_str())
        });
        names.zip(self.entries).map(|(name, entry)| (name, entry.seq, entry.at))
    }

    /// What the item has changed. An update that settles a step says when that began, unless the run was failed or
    /// paused from outside its workflow.
    pub fn updates(&self) -> impl Iterator<Item = Update<'_>> {
        let since = self.since.iter().copied().chain(std::iter::repeat(None));
        self.entries.iter().zip(since).filter_map(|(entry, since)| story::observe(entry, since, self.folded))
    }
}

/// Observes nothing.
pub struct NoObserver;

impl Observe for NoObserver {
    fn committed(&self, _: &CommittedItem<'_>) {}
}
