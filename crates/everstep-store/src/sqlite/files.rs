//! Files: uploads, reads, reservations and their end. Every write is short, so that commits go between the chunks.

use async_trait::async_trait;
use everstep_core::actor::Actor;
use everstep_core::ids::{FileId, RunId, WorkspaceId};
use everstep_core::planted::{self, Bug};
use everstep_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, named_params};

use super::columns;
use super::database::Database;
use super::disk::Purpose;
use super::queries::query;
use super::store::{SqliteStore, Upkeep};
use crate::error::Result;
use crate::files::{
    COUNTED_BYTES_MIN, FileReservation, FileRow, FinishedFile, NewFile, ReserveOutcome, ReservedColumns, UploadOutcome,
    exceeds_quota,
};
use crate::item::Item;
use crate::ports::FileStore;
use crate::retention::{BOUND_FILE_RECHECK_INTERVAL, EXPIRED_FILE_RETENTION};
use crate::{numbers, texts};

/// Chunks that one transaction deletes: 4 MiB.
const CHUNKS_PER_TRANSACTION_MAX: usize = 16;

#[async_trait]
impl FileStore for SqliteStore {
    async fn begin_file(&self, file: &NewFile, quota: u64) -> Result<UploadOutcome> {
        let file = file.clone();
        self.write_for(Purpose::NewWork, move |database| database.begin_file(&file, quota)).await
    }

    async fn add_chunk(&self, id: FileId, chunk: u32, bytes: Vec<u8>) -> Result<bool> {
        self.write_chunk(move |database| database.add_chunk(id, chunk, &bytes)).await
    }

    async fn finish_file(&self, file: &FinishedFile, quota: u64) -> Result<UploadOutcome> {
        let file = file.clone();
        self.write_for(Purpose::NewWork, move |database| database.finish_file(&file, quota)).await
    }

    async fn delete_file(&self, id: FileId) -> Result<()> {
        while self.write(move |database| database.delete_file(id)).await? {}
        Ok(())
    }

    async fn file(&self, workspace: WorkspaceId, id: FileId) -> Result<Option<FileRow>> {
        self.read(move |database| database.file(workspace, id)).await
    }

    async fn list_files(&self, workspace: WorkspaceId, ids: &[FileId]) -> Result<Vec<FileRow>> {
        let ids = ids.to_vec();
        self.read(move |database| database.list_files(workspace, &ids)).await
    }

    async fn chunk(&self, id: FileId, chunk: u32) -> Result<Option<Vec<u8>>> {
        self.read(move |database| database.chunk(id, chunk)).await
    }

    async fn reserve_files(&self, reservation: &FileReservation) -> Result<ReserveOutcome> {
        let reservation = reservation.clone();
        self.write_for(Purpose::AcceptedWork, move |database| database.reserve_files(&reservation)).await
    }

    async fn sweep_files(&self, now: Timestamp, limit: usize) -> Result<usize> {
        self.upkeep(Upkeep::Pages, move |database| database.sweep_files(now, limit).map(|files| (files, 0))).await
    }
}

impl Database {
    pub fn begin_file(&mut self, file: &NewFile, quota: u64) -> Result<UploadOutcome> {
        texts::check([file.name.as_str(), &file.media_type, &file.by.id])?;
        let tx = self.begin()?;
        let used = used_bytes(&tx, file.workspace, &file.by)?;
        if exceeds_quota(used, file.announced, quota) {
            return Ok(UploadOutcome::QuotaReached(used));
        }
        tx.prepare_cached(query!("files/begin_file/2_insert"))?.execute(named_params! {
            ":id": bytes(file.id),
            ":workspace": file.workspace.uuid().into_bytes(),
            ":size": numbers::clamp_seq(file.announced),
            ":created_at": file.created_at.micros(),
            ":expires_at": file.expires_at.micros(),
            ":uploaded_by": file.by.to_text(),
            ":name": file.name,
            ":media_type": file.media_type,
        })?;
        tx.commit()?;
        Ok(UploadOutcome::Stored)
    }

    pub fn add_chunk(&mut self, id: FileId, chunk: u32, stored: &[u8]) -> Result<bool> {
        let tx = self.begin()?;
        let is_unfinished: bool = tx
            .prepare_cached(query!("files/add_chunk/1_unfinished"))?
            .query_row(named_params! { ":id": bytes(id) }, |row| row.get(0))?;
        if !is_unfinished {
            return Ok(false);
        }
        tx.prepare_cached(query!("files/add_chunk/2_insert"))?
            .execute(named_params! { ":id": bytes(id), ":chunk": chunk, ":bytes": stored })?;
        tx.commit()?;
        Ok(true)
    }

    pub fn finish_file(&mut self, file: &FinishedFile, quota: u64) -> Result<UploadOutcome> {
        let tx = self.begin()?;
        let finished = tx.prepare_cached(query!("files/finish_file/1_finish"))?.execute(named_params! {
            ":id": bytes(file.id),
            ":size": numbers::clamp_seq(file.size),
            ":sha256": file.sha256,
            ":expires_at": file.expires_at.micros(),
        })?;
        if finished == 0 {
            return Ok(UploadOutcome::Missing);
        }
        let used = used_bytes(&tx, file.workspace, &file.by)?;
        if used > quota {
            return Ok(UploadOutcome::QuotaReached(used));
        }
        tx.commit()?;
        Ok(UploadOutcome::Stored)
    }

    /// Deletes a part of an unfinished file. Returns whether more of it is left.
    pub fn delete_file(&mut self, id: FileId) -> Result<bool> {
        let tx = self.begin()?;
        let is_unfinished: bool = tx
            .prepare_cached(query!("files/add_chunk/1_unfinished"))?
            .query_row(named_params! { ":id": bytes(id) }, |row| row.get(0))?;
        if !is_unfinished {
            return Ok(false);
        }
        delete_chunks(&tx, bytes(id), CHUNKS_PER_TRANSACTION_MAX)?;
        let deleted =
            tx.prepare_cached(query!("files/delete_file/1_unfinished"))?.execute(named_params! { ":id": bytes(id) })?;
        tx.commit()?;
        Ok(deleted == 0)
    }

    pub fn file(&self, workspace: WorkspaceId, id: FileId) -> Result<Option<FileRow>> {
        let mut statement = self.connection.prepare_cached(query!("files/file"))?;
        let params = named_params! { ":id": bytes(id), ":workspace": workspace.uuid().into_bytes() };
        Ok(statement.query_row(params, |row| file_from_row(row, workspace)).optional()?)
    }

    pub fn list_files(&self, workspace: WorkspaceId, ids: &[FileId]) -> Result<Vec<FileRow>> {
        let mut found = Vec::new();
        for id in ids {
            found.extend(self.file(workspace, *id)?);
        }
        Ok(found)
    }

    pub fn chunk(&self, id: FileId, chunk: u32) -> Result<Option<Vec<u8>>> {
        let mut statement = self.connection.prepare_cached(query!("files/chunk"))?;
        let params = named_params! { ":id": bytes(id), ":chunk": chunk };
        Ok(statement.query_row(params, |row| row.get(0)).optional()?)
    }

    pub fn reserve_files(&mut self, reservation: &FileReservation) -> Result<ReserveOutcome> {
        let tx = self.begin()?;
        let found =
            reservation.files.iter().map(|file| find_file(&tx, reservation, *file)).collect::<Result<Vec<_>>>()?;
        let find = |file: FileId| {
            let place = reservation.files.iter().position(|named| *named == file)?;
            let (run, is_bound, expires_at) = found[place]?;
            // The planted bug: each run may have it.
            let run = run.filter(|_| !planted::is_planted(Bug::FileBoundTwice));
            Some(ReservedColumns { run, is_bound, expires_at })
        };
        let outcome = reservation.outcome(find);
        if let ReserveOutcome::Reserved(_) = outcome {
            for file in &reservation.files {
                tx.prepare_cached(query!("files/reserve_files/2_reserve"))?
                    .execute(named_params! { ":run": reservation.run.uuid().into_bytes(), ":id": bytes(*file) })?;
            }
            tx.commit()?;
        }
        Ok(outcome)
    }

    /// Its transaction deletes a bounded number of chunks: a large file is deleted by several calls, and no reader finds
    /// it before the first of them.
    pub fn sweep_files(&mut self, now: Timestamp, limit: usize) -> Result<usize> {
        let tx = self.begin()?;
        let due: Vec<([u8; 16], Option<i64>)> = tx
            .prepare_cached(query!("files/sweep_files/1_due"))?
            .query_map(
                named_params! {
                    ":before": now.micros().saturating_sub(numbers::micros(EXPIRED_FILE_RETENTION)),
                    ":later": now.plus(BOUND_FILE_RECHECK_INTERVAL).micros(),
                    ":now": now.micros(),
                    ":limit": numbers::clamp_limit(limit),
                },
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?
            .collect::<rusqlite::Result<_>>()?;
        let (mut room, mut swept) = (CHUNKS_PER_TRANSACTION_MAX, 0);
        for (id, kept_until) in due {
            if let Some(later) = kept_until {
                tx.prepare_cached(query!("files/sweep_files/2_keep"))?
                    .execute(named_params! { ":later": later, ":id": id })?;
                swept += 1;
                continue;
            }
            if room == 0 {
                break;
            }
            room -= delete_chunks(&tx, id, room)?;
            swept += 1;
            if room > 0 {
                tx.prepare_cached(query!("files/sweep_files/4_delete"))?.execute(named_params! { ":id": id })?;
            }
        }
        tx.commit()?;
        Ok(swept)
    }
}

/// Binds the files of an item to its run. `false`: one of them is not reserved for the run, or is bound.
pub(super) fn bind_files(tx: &Connection, item: &Item) -> Result<bool> {
    for binding in item.side.iter().flat_map(|side| &side.files) {
        let bound = tx.prepare_cached(query!("commit/4_file"))?.execute(named_params! {
            ":seq": numbers::checked_seq(binding.seq)?,
            ":file": bytes(binding.file),
            ":run": item.run.uuid().into_bytes(),
        })?;
        if bound == 0 && !planted::is_planted(Bug::FileBoundTwice) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn used_bytes(tx: &Connection, workspace: WorkspaceId, by: &Actor) -> Result<u64> {
    let mut statement = tx.prepare_cached(query!("files/begin_file/1_used"))?;
    let params = named_params! {
        ":least": numbers::clamp_seq(COUNTED_BYTES_MIN),
        ":workspace": workspace.uuid().into_bytes(),
        ":uploaded_by": by.to_text(),
    };
    Ok(statement.query_row(params, |row| columns::seq(row, 0))?)
}

/// Deletes chunks of a file, at most `limit`. Returns their number.
fn delete_chunks(tx: &Connection, id: [u8; 16], limit: usize) -> Result<usize> {
    let params = named_params! { ":id": id, ":limit": numbers::clamp_limit(limit) };
    Ok(tx.prepare_cached(query!("files/sweep_files/3_chunks"))?.execute(params)?)
}

type FoundFile = (Option<RunId>, bool, Timestamp);

fn find_file(tx: &Connection, reservation: &FileReservation, file: FileId) -> Result<Option<FoundFile>> {
    let params = named_params! {
        ":id": bytes(file),
        ":workspace": reservation.workspace.uuid().into_bytes(),
        ":uploaded_by": reservation.by.to_text(),
    };
    let read = |row: &Row<'_>| {
        let run = columns::optional_uuid(row, 0)?.map(RunId::from_uuid);
        Ok((run, row.get::<_, Option<i64>>(1)?.is_some(), columns::time(row, 2)?))
    };
    Ok(tx.prepare_cached(query!("files/reserve_files/1_found"))?.query_row(params, read).optional()?)
}

/// In the order of `files/file.sql`.
fn file_from_row(row: &Row<'_>, workspace: WorkspaceId) -> rusqlite::Result<FileRow> {
    let seq: Option<i64> = row.get(9)?;
    Ok(FileRow {
        id: FileId::from_uuid(columns::uuid(row, 0)?),
        workspace,
        name: row.get(1)?,
        media_type: row.get(2)?,
        size: columns::seq(row, 3)?,
        sha256: row.get(4)?,
        by: Actor::from_text(columns::text(row, 5)?),
        created_at: columns::time(row, 6)?,
        expires_at: columns::time(row, 7)?,
        run: columns::optional_uuid(row, 8)?.map(RunId::from_uuid),
        seq: seq.map(i64::cast_unsigned),
    })
}

fn bytes(id: FileId) -> [u8; 16] {
    id.uuid().into_bytes()
}
