//! Uploaded files: their rows, and the outcomes of the verbs that change them.

use everstep_core::actor::Actor;
use everstep_core::ids::{FileId, RunId, WorkspaceId};
use everstep_core::time::Timestamp;

/// A small file counts as this many bytes of the quota of its person, so that the number of files is bounded, too.
pub(crate) const COUNTED_BYTES_MIN: u64 = 16 * 1024;

/// A file whose upload begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    pub id: FileId,
    pub workspace: WorkspaceId,
    pub name: String,
    pub media_type: String,
    /// The number of bytes that the client has announced; zero if it has announced none.
    pub announced: u64,
    pub by: Actor,
    pub created_at: Timestamp,
    /// When an upload that was not finished is deleted.
    pub expires_at: Timestamp,
}

/// A file all of whose bytes are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedFile {
    pub id: FileId,
    pub workspace: WorkspaceId,
    pub by: Actor,
    pub size: u64,
    pub sha256: [u8; 32],
    /// Until when the file can be reserved.
    pub expires_at: Timestamp,
}

/// The outcome of beginning or finishing an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadOutcome {
    Stored,
    /// The unbound files of the person have this many bytes, with this file more than the quota. Nothing was changed.
    QuotaReached(u64),
    /// The file is not an unfinished one.
    Missing,
}

/// A finished file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRow {
    pub id: FileId,
    pub workspace: WorkspaceId,
    pub name: String,
    pub media_type: String,
    pub size: u64,
    pub sha256: [u8; 32],
    pub by: Actor,
    pub created_at: Timestamp,
    /// Until when an unbound file can be reserved.
    pub expires_at: Timestamp,
    /// The run that the file is reserved for or bound to.
    pub run: Option<RunId>,
    /// The entry that the file is bound to.
    pub seq: Option<u64>,
}

/// A request to reserve files for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReservation {
    pub workspace: WorkspaceId,
    pub run: RunId,
    /// The person who has uploaded them.
    pub by: Actor,
    /// Each of them once.
    pub files: Vec<FileId>,
    pub now: Timestamp,
}

/// The outcome of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveOutcome {
    /// All files are reserved for the run, or bound to it. The time is when the first of the unbound ones expires.
    Reserved(Option<Timestamp>),
    /// Nothing was reserved because of this file.
    Refused(FileId, FileFault),
}

/// Why a file cannot be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFault {
    /// The person has not uploaded such a file.
    NotFound,
    /// Another run has the file.
    Taken,
    Expired,
}

/// The columns of a file by which a reservation is decided.
pub(crate) struct ReservedColumns {
    pub(crate) run: Option<RunId>,
    pub(crate) is_bound: bool,
    pub(crate) expires_at: Timestamp,
}

impl FileReservation {
    /// The outcome, from the files that the person has uploaded.
    pub(crate) fn outcome(&self, find: impl Fn(FileId) -> Option<ReservedColumns>) -> ReserveOutcome {
        let mut until: Option<Timestamp> = None;
        for file in &self.files {
            let Some(found) = find(*file) else { return ReserveOutcome::Refused(*file, FileFault::NotFound) };
            if found.run.is_some_and(|run| run != self.run) {
                return ReserveOutcome::Refused(*file, FileFault::Taken);
            }
            if found.is_bound {
                continue;
            }
            if found.expires_at <= self.now {
                return ReserveOutcome::Refused(*file, FileFault::Expired);
            }
            until = Some(until.map_or(found.expires_at, |until| until.min(found.expires_at)));
        }
        ReserveOutcome::Reserved(until)
    }
}

/// Whether more bytes fit into a quota of which some are used.
pub(crate) fn exceeds_quota(used: u64, added: u64, quota: u64) -> bool {
    used.saturating_add(added.max(COUNTED_BYTES_MIN)) > quota
}
