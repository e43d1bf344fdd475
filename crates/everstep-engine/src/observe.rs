//! The port to whoever counts and measures what runs do.

use everstep_core::code::Progress;
use everstep_core::graph::Graph;
use everstep_core::ids::{RunId, StepKey, WorkspaceId};
use everstep_core::journal::Entry;
use everstep_core::run::{Input, Parent, Reply};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;

use crate::run::Envelope;

/// Sees what was committed.
///
/// It is called by the loop that owns the run, once per item and after its commit, and nothing goes on for any run of
/// that loop before it returns: it must be cheap and must never block. What it wants to keep it copies, and what takes
/// longer than a few additions it leaves to somebody else.
/// An item whose outcome this node never learned is not seen.
pub trait Observe: Send + Sync {
    fn committed(&self, seen: &Seen<'_>);

    /// Ended runs were deleted because their retention is over.
    fn swept(&self, _runs: usize) {}
}

/// One item that was applied.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    pub run: RunId,
    pub workspace: WorkspaceId,
    pub workflow: &'a str,
    pub version: u32,
    /// The graph that the run follows; none when it follows none, or this build cannot read the run.
    pub graph: Option<&'a Graph>,
    /// Where the run of a code workflow stands.
    pub code: Option<&'a Progress>,
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

impl Seen<'_> {
    /// The events of the signals that the run has taken with this item.
    pub fn signals(&self) -> impl Iterator<Item = &str> {
        let taken = self.answered.iter().filter(|(_, reply)| matches!(reply, Reply::Accepted | Reply::Buffered));
        taken.filter_map(|(envelope, _)| {
            let (Input::Signal { event, .. } | Input::BufferedSignal { event, .. }) = &envelope.input else {
                return None;
            };
            Some(event.as_str())
        })
    }

    /// What a step is called: its place in a graph, or the whole name that code gave it.
    pub fn place<'a>(&self, step: &'a StepKey) -> &'a str {
        if self.code.is_some() { step.as_str() } else { step.place() }
    }

    /// The entries, each that settles a step with the time at which that was dispatched.
    /// Where a run was failed or paused from outside its workflow, no times are known.
    pub fn settled(&self) -> impl Iterator<Item = (&Entry, Option<Timestamp>)> {
        self.entries.iter().zip(self.since.iter().copied().chain(std::iter::repeat(None)))
    }
}

/// Sees nothing.
pub struct Blind;

impl Observe for Blind {
    fn committed(&self, _: &Seen<'_>) {}
}
