//! Rows and pages of the port of records.

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::payload::Payload;
pub use everstep_core::records::NamespaceFilter;
use everstep_core::records::{AppliedOp, Author, NamespaceCounts, OpFailure, PAGE_ITEMS_DEFAULT, Scan, ValueType};
use everstep_core::time::Timestamp;

/// The answer to an op: its output, or why it failed.
pub type OpOutcome = Result<Payload, OpFailure>;

/// The answers to the ops of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppliedBatch {
    /// In the order of the ops.
    pub outcomes: Vec<OpOutcome>,
    /// How often an op was folded again, because another node had written to its namespace.
    pub redone: usize,
}

/// The answers to the ops of a batch that was tried once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TriedBatch {
    /// In the order of the ops. An op without an answer was not applied.
    pub outcomes: Vec<Option<OpOutcome>>,
    /// The number of ops without an answer because another node had written to their namespace.
    pub redone: usize,
}

impl From<AppliedBatch> for TriedBatch {
    fn from(applied: AppliedBatch) -> Self {
        Self { outcomes: applied.outcomes.into_iter().map(Some).collect(), redone: applied.redone }
    }
}

/// What identifies a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey {
    pub workspace: WorkspaceId,
    pub namespace: String,
    pub key: String,
}

/// A record that has expired and is not yet deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpiredRecord {
    pub key: RecordKey,
    /// The change that wrote it.
    pub change: u64,
}

/// A namespace. An emptied one keeps its row.
#[derive(Clone, Debug, PartialEq)]
pub struct NamespaceRow {
    pub name: String,
    pub counts: NamespaceCounts,
    pub updated_at: Timestamp,
}

/// Which namespaces a page contains.
#[derive(Clone, Debug, PartialEq)]
pub struct NamespaceQuery {
    /// One namespace, whether it is empty or not.
    pub name: Option<String>,
    pub filter: NamespaceFilter,
    /// The name after which the page begins.
    pub after: Option<String>,
    pub limit: usize,
}

impl Default for NamespaceQuery {
    fn default() -> Self {
        Self { name: None, filter: NamespaceFilter::Any, after: None, limit: PAGE_ITEMS_DEFAULT }
    }
}

impl NamespaceQuery {
    /// One namespace.
    pub fn by_name(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::default() }
    }

    fn is_match(&self, counts: &NamespaceCounts) -> bool {
        match self.filter {
            _ if self.name.is_some() => true,
            NamespaceFilter::Any => counts.keys > 0 || counts.links > 0,
            NamespaceFilter::Records => counts.keys > 0,
            NamespaceFilter::Links => counts.links > 0,
        }
    }
}

/// One page of a list of namespaces, by name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamespacePage {
    pub namespaces: Vec<NamespaceRow>,
    /// The name after which the next page begins.
    pub next: Option<String>,
}

/// A page of namespaces under construction.
pub(crate) struct NamespaceScan<'a> {
    query: &'a NamespaceQuery,
    scan: Scan<NamespaceRow, String>,
}

impl<'a> NamespaceScan<'a> {
    pub(crate) fn new(query: &'a NamespaceQuery) -> Self {
        Self { query, scan: Scan::new(query.limit) }
    }

    /// Adds the next namespace. Returns false if no further one belongs to this page.
    pub(crate) fn offer(&mut self, row: NamespaceRow) -> bool {
        let (name, is_match) = (row.name.clone(), self.query.is_match(&row.counts));
        self.scan.offer(name, 0, is_match.then_some((row, 0)))
    }

    pub(crate) fn finish(self) -> NamespacePage {
        let (namespaces, next) = self.scan.finish();
        NamespacePage { namespaces, next }
    }
}

/// Which changes of a namespace a page contains.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangeQuery {
    pub namespace: String,
    /// The number after which the page begins.
    pub after: u64,
    pub limit: usize,
    pub actor: Option<String>,
    /// The name of a verb, such as `store.set`.
    pub action: Option<String>,
    pub run: Option<RunId>,
}

impl ChangeQuery {
    fn is_match(&self, row: &ChangeRow) -> bool {
        self.actor.as_ref().is_none_or(|actor| *actor == row.author.actor)
            && self.action.as_ref().is_none_or(|action| *action == row.action)
            && self.run.is_none_or(|run| row.author.run == Some(run))
    }
}

/// A change, as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeRow {
    pub number: u64,
    /// The name of a verb, such as `store.set`.
    pub action: String,
    /// The key of a record, or the id of a link.
    pub subject: String,
    /// Of a written record.
    pub revision: Option<u64>,
    pub value_type: Option<ValueType>,
    pub value_expires_at: Option<Timestamp>,
    pub value: ChangeValue,
    pub at: Timestamp,
    pub author: Author,
    /// On the first change of an op.
    pub op: Option<AppliedOp>,
}

/// What a change wrote.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeValue {
    /// A record was deleted.
    None,
    /// The value of a record; of a link, its sides, its relation and, unless it was deleted, its attributes.
    Whole(Payload),
    /// A value that is too long for the history.
    Omitted { bytes: u64, sha256: String },
}

/// One page of the changes of a namespace, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangePage {
    pub changes: Vec<ChangeRow>,
    /// The number after which the next page begins.
    pub next: Option<u64>,
}

/// A page of changes under construction.
pub(crate) struct ChangeScan<'a> {
    query: &'a ChangeQuery,
    scan: Scan<ChangeRow, u64>,
}

impl<'a> ChangeScan<'a> {
    pub(crate) fn new(query: &'a ChangeQuery) -> Self {
        Self { query, scan: Scan::new(query.limit) }
    }

    /// Adds the next change. Returns false if no further one belongs to this page.
    pub(crate) fn offer(&mut self, row: ChangeRow) -> bool {
        let bytes = match &row.value {
            ChangeValue::Whole(value) => value.size(),
            ChangeValue::None | ChangeValue::Omitted { .. } => 0,
        };
        let (number, is_match) = (row.number, self.query.is_match(&row));
        self.scan.offer(number, bytes, is_match.then_some((row, bytes)))
    }

    pub(crate) fn finish(self) -> ChangePage {
        let (changes, next) = self.scan.finish();
        ChangePage { changes, next }
    }
}
