//! The port of files: uploads in chunks, reads, reservations for runs.
//!
//! A file is bound by the item that names it, with [`crate::SideWrites`].

use async_trait::async_trait;
use everstep_core::ids::{FileId, WorkspaceId};
use everstep_core::time::Timestamp;

use crate::error::Result;
use crate::files::{FileReservation, FileRow, FinishedFile, NewFile, ReserveOutcome, UploadOutcome};

/// Every promise here is proved by `everstep_testkit::contract::files`.
#[async_trait]
pub trait FileStore: Send + Sync {
    /// Begins an upload, unless the unbound files of the person and the announced bytes are more than `quota`. No reader
    /// finds the file before it is finished.
    async fn begin_file(&self, file: &NewFile, quota: u64) -> Result<UploadOutcome>;

    /// Adds a chunk to an unfinished file, in one short transaction. Chunks are counted from 0, and each has
    /// [`everstep_core::limits::FILE_CHUNK_BYTES`], except the last one. `false`: the file is not an unfinished one.
    /// The chunk is durable when the file is finished.
    async fn add_chunk(&self, id: FileId, chunk: u32, bytes: Vec<u8>) -> Result<bool>;

    /// Finishes an upload: the file is now found by readers, and can be reserved. Nothing is changed if the unbound files
    /// of the person would have more bytes than `quota`.
    async fn finish_file(&self, file: &FinishedFile, quota: u64) -> Result<UploadOutcome>;

    /// Deletes an unfinished file with its chunks. A finished one is left as it is.
    async fn delete_file(&self, id: FileId) -> Result<()>;

    /// A finished file of a workspace.
    async fn file(&self, workspace: WorkspaceId, id: FileId) -> Result<Option<FileRow>>;

    /// Those of the files that a workspace has, finished, in any order.
    async fn list_files(&self, workspace: WorkspaceId, ids: &[FileId]) -> Result<Vec<FileRow>>;

    /// A chunk of a file.
    async fn chunk(&self, id: FileId, chunk: u32) -> Result<Option<Vec<u8>>>;

    /// Reserves files for a run: all, or none if one of them cannot be reserved.
    ///
    /// * A file is reserved for one run at most, whatever the number of concurrent calls.
    /// * Only files that the person has uploaded, and that have not expired, are reserved.
    /// * Files that are reserved for the run, or bound to it, are no obstacle.
    async fn reserve_files(&self, reservation: &FileReservation) -> Result<ReserveOutcome>;

    /// Deletes files with their chunks, at most about `limit` of them: those that are not bound, an hour after they have
    /// expired, and bound ones whose run does not exist. Bound files whose run exists are looked at again later. Returns
    /// the number of both; zero if nothing is left to do.
    async fn sweep_files(&self, now: Timestamp, limit: usize) -> Result<usize>;
}
