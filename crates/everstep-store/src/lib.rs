//! Persists runs, journals, workflows and their rows. This crate decides nothing about workflows.
//!
//! [`ports`] contains the contract, one trait per consumer; each database has a folder that implements it, with the
//! same file and query names. `everstep-testkit` contains the suite that every implementation passes.

mod access;
mod claims;
mod dead_letters;
mod error;
mod files;
mod filter;
mod item;
mod journal;
mod migrations;
mod numbers;
mod pace;
mod pack;
mod ports;
pub mod postgres;
mod preconditions;
mod quota;
mod records;
mod resources;
mod retention;
mod rows;
mod space;
pub mod sqlite;
mod stats;
mod terms;
mod texts;
mod topics;
mod workflows;

pub use access::{AuditFilter, AuditRow, KeyOutcome, KeyRow, WorkspaceRow};
pub use claims::ClaimResult;
pub use dead_letters::{
    ChangedLetters, DeadLetterClaim, DeadLetterFilter, DeadLetterOutcome, DeadLetterQuery, DeadLetterResult,
    DeadLetterRetention, DeadLetterRow, LetterTarget, TakenLetters,
};
pub use error::{Error, Result};
pub use files::{FileFault, FileReservation, FileRow, FinishedFile, NewFile, ReserveOutcome, UploadOutcome};
pub use filter::RunFilter;
pub use item::{
    CommitOutcome, ForkOrigin, Gate, HeldStart, InboxId, InboxInput, Item, MachinePlace, NewEntry, NewFork, NewRun,
    PendingStart, Projection, SentInput, SideWrites, Wait, WaitChange, WaitKind,
};
pub use ports::{
    AccessStore, DeadLetterStore, EVENT_PAGE_BYTES, FileStore, RecordStore, ResourceStore, RunStore, Stores,
    TopicStore, WorkflowStore,
};
pub use preconditions::{ActivationOutcome, Precondition, RegistrationOutcome, SaveOutcome};
pub use records::{
    AppliedBatch, ChangePage, ChangeQuery, ChangeRow, ChangeValue, ExpiredRecord, NamespaceFilter, NamespacePage,
    NamespaceQuery, NamespaceRow, OpOutcome, RecordKey, TriedBatch,
};
pub use resources::{ResourceKind, ResourceRow};
pub use rows::{
    Counts, InboxRow, NodeRow, RunGlance, RunPage, RunRow, RunSummary, Snapshot, StoredEntry, StoredRun, Tick,
    TickRequest, WaitRow,
};
pub use space::Space;
pub use stats::{DURATION_BUCKETS, MinuteStats, RunStats, StatsQuery, minute_of};
pub use topics::{
    EventPage, EventQuery, EventResult, EventRow, EventSlice, FanOutPosition, ListedEvent, MatchCounts, MatchingWait,
    PublishOutcome, ResultPage, SliceOutcome, StartRow, SubscriptionOutcome, SubscriptionQuery, UnmatchedEvents,
    WaitPage, WaitPosition,
};
pub use workflows::{ChangeKey, Deletion, KeyedChange, NewWorkflow, VersionRow, WorkflowRow, WorkflowSummary};
