//! Files: uploads, reads, reservations and their end.

use async_trait::async_trait;
use everstep_core::actor::Actor;
use everstep_core::ids::{FileId, RunId, WorkspaceId};
use everstep_core::time::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::columns;
use super::connection::Connection;
use super::queries::{params, query};
use super::store::PostgresStore;
use crate::error::{Error, Result};
use crate::files::{
    COUNTED_BYTES_MIN, FileReservation, FileRow, FinishedFile, NewFile, ReserveOutcome, ReservedColumns, UploadOutcome,
    exceeds_quota,
};
use crate::ports::FileStore;
use crate::retention::{BOUND_FILE_RECHECK_INTERVAL, EXPIRED_FILE_RETENTION};
use crate::{numbers, texts};

/// A file counts as so many rows of a sweep: it has many chunks.
const ROWS_OF_FILE: usize = 64;

#[async_trait]
impl FileStore for PostgresStore {
    async fn begin_file(&self, file: &NewFile, quota: u64) -> Result<UploadOutcome> {
        texts::check([file.name.as_str(), &file.media_type, &file.by.id])?;
        let connection = self.connections.get().await?;
        // The quota is exact when the upload is finished.
        let used = used_bytes(&connection, file.workspace, &file.by).await?;
        if exceeds_quota(used, file.announced, quota) {
            return Ok(UploadOutcome::QuotaReached(used));
        }
        connection
            .execute(
                query!("files/begin_file/2_insert"),
                params! {
                    "id": file.id.uuid(),
                    "workspace": file.workspace.uuid(),
                    "size": numbers::clamp_seq(file.announced),
                    "created_at": file.created_at.micros(),
                    "expires_at": file.expires_at.micros(),
                    "uploaded_by": file.by.to_text(),
                    "name": file.name,
                    "media_type": file.media_type,
                },
            )
            .await?;
        Ok(UploadOutcome::Stored)
    }

    async fn add_chunk(&self, id: FileId, chunk: u32, bytes: Vec<u8>) -> Result<bool> {
        Ok(self
            .connections
            .execute(
                query!("files/add_chunk"),
                params! { "id": id.uuid(), "chunk": numbers::checked_integer(chunk)?, "bytes": bytes.as_slice() },
            )
            .await?
            == 1)
    }

    async fn finish_file(&self, file: &FinishedFile, quota: u64) -> Result<UploadOutcome> {
        let connection = self.connections.get().await?;
        connection.begin("begin").await?;
        connection
            .query(
                query!("files/finish_file/1_lock"),
                params! { "workspace": file.workspace.uuid(), "uploaded_by": file.by.to_text() },
            )
            .await?;
        let finished = connection
            .execute(
                query!("files/finish_file/2_finish"),
                params! {
                    "size": numbers::clamp_seq(file.size),
                    "sha": file.sha256.as_slice(),
                    "expires_at": file.expires_at.micros(),
                    "id": file.id.uuid(),
                },
            )
            .await?;
        let used = used_bytes(&connection, file.workspace, &file.by).await?;
        if finished == 0 || used > quota {
            connection.rollback().await?;
            return Ok(if finished == 0 { UploadOutcome::Missing } else { UploadOutcome::QuotaReached(used) });
        }
        connection.commit().await?;
        Ok(UploadOutcome::Stored)
    }

    async fn delete_file(&self, id: FileId) -> Result<()> {
        self.connections.execute(query!("files/delete_file"), params! { "id": id.uuid() }).await?;
        Ok(())
    }

    async fn file(&self, workspace: WorkspaceId, id: FileId) -> Result<Option<FileRow>> {
        let row = self
            .connections
            .query_opt(query!("files/file"), params! { "id": id.uuid(), "workspace": workspace.uuid() })
            .await?;
        row.map(|row| file_from_row(&row, workspace)).transpose()
    }

    async fn list_files(&self, workspace: WorkspaceId, ids: &[FileId]) -> Result<Vec<FileRow>> {
        let (ids, id): (Vec<_>, _) = (ids.iter().map(|id| id.uuid()).collect(), workspace.uuid());
        let rows = self.connections.query(query!("files/list_files"), params! { "ids": ids, "workspace": id }).await?;
        rows.iter().map(|row| file_from_row(row, workspace)).collect()
    }

    async fn chunk(&self, id: FileId, chunk: u32) -> Result<Option<Vec<u8>>> {
        let row = self
            .connections
            .query_opt(query!("files/chunk"), params! { "id": id.uuid(), "chunk": numbers::checked_integer(chunk)? })
            .await?;
        row.map(|row| columns::get(&row, 0)).transpose()
    }

    async fn reserve_files(&self, reservation: &FileReservation) -> Result<ReserveOutcome> {
        let rows = self
            .connections
            .query(
                query!("files/reserve_files"),
                params! {
                    "run": reservation.run.uuid(),
                    "now": reservation.now.micros(),
                    "ids": reservation.files.iter().map(|file| file.uuid()).collect::<Vec<_>>(),
                    "workspace": reservation.workspace.uuid(),
                    "uploaded_by": reservation.by.to_text(),
                    "count": numbers::clamp_limit(reservation.files.len()),
                },
            )
            .await?;
        let found = rows.iter().map(reserved_from_row).collect::<Result<Vec<_>>>()?;
        Ok(reservation.outcome(|file| {
            let (_, run, is_bound, expires_at) = *found.iter().find(|(id, ..)| *id == file.uuid())?;
            Some(ReservedColumns { run, is_bound, expires_at })
        }))
    }

    async fn sweep_files(&self, now: Timestamp, limit: usize) -> Result<usize> {
        let before = now.micros().saturating_sub(numbers::micros(EXPIRED_FILE_RETENTION));
        let (now, later) = (now.micros(), now.plus(BOUND_FILE_RECHECK_INTERVAL).micros());
        let params = params! { "later": later, "now": now, "before": before };
        self.sweep_all(limit, ROWS_OF_FILE, query!("files/sweep_files"), params).await
    }
}

async fn used_bytes(connection: &Connection<'_>, workspace: WorkspaceId, by: &Actor) -> Result<u64> {
    let rows = connection
        .query(
            query!("files/begin_file/1_used"),
            params! {
                "least": numbers::clamp_seq(COUNTED_BYTES_MIN),
                "workspace": workspace.uuid(),
                "uploaded_by": by.to_text(),
            },
        )
        .await?;
    let row = rows.first().ok_or_else(|| Error::Corrupt("a sum has no row".to_owned()))?;
    columns::seq(row, 0)
}

type FoundFile = (Uuid, Option<RunId>, bool, Timestamp);

/// In the order of `files/reserve_files.sql`.
fn reserved_from_row(row: &Row) -> Result<FoundFile> {
    let run = columns::get::<Option<Uuid>>(row, 1)?.map(RunId::from_uuid);
    let is_bound = columns::get::<Option<i64>>(row, 2)?.is_some();
    Ok((columns::get(row, 0)?, run, is_bound, columns::time(row, 3)?))
}

/// In the order of `files/file.sql`.
fn file_from_row(row: &Row, workspace: WorkspaceId) -> Result<FileRow> {
    let sha256: &[u8] = columns::get(row, 4)?;
    Ok(FileRow {
        id: FileId::from_uuid(columns::get(row, 0)?),
        workspace,
        name: columns::get(row, 1)?,
        media_type: columns::get(row, 2)?,
        size: columns::seq(row, 3)?,
        sha256: sha256.try_into().map_err(columns::unreadable)?,
        by: Actor::from_text(columns::get(row, 5)?),
        created_at: columns::time(row, 6)?,
        expires_at: columns::time(row, 7)?,
        run: columns::get::<Option<Uuid>>(row, 8)?.map(RunId::from_uuid),
        seq: columns::get::<Option<i64>>(row, 9)?.map(columns::checked_seq).transpose()?,
    })
}
