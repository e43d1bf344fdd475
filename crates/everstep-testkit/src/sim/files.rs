//! The port of files behind the simulated wire.

use async_trait::async_trait;
use everstep_core::ids::{FileId, WorkspaceId};
use everstep_core::time::Timestamp;
use everstep_store::{
    Error, FileReservation, FileRow, FileStore, FinishedFile, NewFile, ReserveOutcome, Result, UploadOutcome,
};

use super::wire::SimStore;

#[async_trait]
impl FileStore for SimStore {
    async fn begin_file(&self, file: &NewFile, quota: u64) -> Result<UploadOutcome> {
        if self.is_full() {
            return Err(Error::Full("no room".to_owned()));
        }
        let file = file.clone();
        self.call("begin_file", move |db| db.begin_file(&file, quota)).await
    }

    async fn add_chunk(&self, id: FileId, chunk: u32, bytes: Vec<u8>) -> Result<bool> {
        self.call("add_chunk", move |db| db.add_chunk(id, chunk, &bytes)).await
    }

    async fn finish_file(&self, file: &FinishedFile, quota: u64) -> Result<UploadOutcome> {
        let file = file.clone();
        self.call("finish_file", move |db| db.finish_file(&file, quota)).await
    }

    async fn delete_file(&self, id: FileId) -> Result<()> {
        while self.call("delete_file", move |db| db.delete_file(id)).await? {}
        Ok(())
    }

    async fn file(&self, workspace: WorkspaceId, id: FileId) -> Result<Option<FileRow>> {
        self.call("file", move |db| db.file(workspace, id)).await
    }

    async fn list_files(&self, workspace: WorkspaceId, ids: &[FileId]) -> Result<Vec<FileRow>> {
        let ids = ids.to_vec();
        self.call("list_files", move |db| db.list_files(workspace, &ids)).await
    }

    async fn chunk(&self, id: FileId, chunk: u32) -> Result<Option<Vec<u8>>> {
        self.call("chunk", move |db| db.chunk(id, chunk)).await
    }

    async fn reserve_files(&self, reservation: &FileReservation) -> Result<ReserveOutcome> {
        let reservation = reservation.clone();
        self.call("reserve_files", move |db| db.reserve_files(&reservation)).await
    }

    async fn sweep_files(&self, now: Timestamp, limit: usize) -> Result<usize> {
        self.call("sweep_files", move |db| db.sweep_files(now, limit)).await
    }
}
