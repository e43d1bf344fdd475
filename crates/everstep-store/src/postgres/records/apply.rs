//! Applies a batch of ops: reads a picture, folds the ops, writes the difference if no namespace has changed since.

use everstep_core::records::{NamespacePicture, Op, Picture, PictureRequest, fold_all};
use everstep_core::time::Timestamp;
use uuid::Uuid;

use super::picture::{self, PictureArrays};
use super::write::{Difference, Prepared};
use crate::error::{Error, Result};
use crate::postgres::columns;
use crate::postgres::errors::StatementError;
use crate::postgres::store::PostgresStore;
use crate::records::{AppliedBatch, PendingOps, TriedBatch, check_texts};

/// The number of times that the ops of a batch are folded, while other nodes write to the same namespaces. One of the
/// nodes succeeds each time.
const PASSES_MAX: usize = 1_000;
/// The unique index of the keys of ops.
const OP_KEYS: &str = "store_changes_by_op";

impl PostgresStore {
    pub(super) async fn apply_ops(&self, ops: &[Op], now: Timestamp, kept_until: Timestamp) -> Result<AppliedBatch> {
        check_texts(ops)?;
        let mut pending = PendingOps::new(ops);
        for pass_no in 0..PASSES_MAX {
            if pending.next_pass().is_empty() {
                return Ok(pending.finish());
            }
            self.apply_pass(&mut pending, now, kept_until).await.map_err(|error| at_pass(pass_no, error))?;
        }
        Err(Error::Unavailable("other nodes write to the same namespaces all the time".to_owned()))
    }

    /// Folds and writes the ops once.
    pub(super) async fn apply_once(&self, ops: &[Op], now: Timestamp, kept_until: Timestamp) -> Result<TriedBatch> {
        check_texts(ops)?;
        let mut pending = PendingOps::new(ops);
        self.apply_pass(&mut pending, now, kept_until).await?;
        Ok(pending.into_tried())
    }

    async fn apply_pass(&self, pending: &mut PendingOps<'_>, now: Timestamp, kept_until: Timestamp) -> Result<()> {
        let pass = pending.next_pass();
        let mut picture = self.read_picture(&PictureRequest::of_ops(pass.iter().copied())).await?;
        let folded = fold_all(&mut picture, pass, now);
        match self.write_picture(&picture, now, kept_until).await {
            Ok(opened) => {
                let has_changes = |namespace: &NamespacePicture| !namespace.changes().is_empty();
                pending.settle(folded, |workspace, name| {
                    let is_changed = picture.namespace(workspace, name).is_some_and(has_changes);
                    !is_changed || opened.binary_search(&(workspace.uuid(), name.to_owned())).is_ok()
                });
            }
            // Another node has applied an op with one of the keys, or the statement was in the way of another.
            Err(failure) if is_known_op(&failure) || failure.is_to_be_resent() => pending.redo(),
            Err(failure) => return Err(failure.into()),
        }
        Ok(())
    }

    async fn read_picture(&self, request: &PictureRequest<'_>) -> Result<Picture> {
        let arrays = PictureArrays::from_request(request);
        let (statement, params) = arrays.statement();
        let row = self.connections.query_one(statement, &params).await?;
        picture::from_row(request, &arrays, &row)
    }

    /// Writes what a batch has changed. Returns the namespaces whose gates were open, in their order.
    async fn write_picture(
        &self,
        picture: &Picture,
        now: Timestamp,
        kept_until: Timestamp,
    ) -> Result<Vec<(Uuid, String)>, StatementError> {
        let prepared = Prepared::from_picture(picture);
        let Some(difference) = Difference::from_prepared(&prepared, now, kept_until) else { return Ok(vec![]) };
        let (statement, params) = difference.statement();
        let rows = self.connections.get().await?.query(statement, &params).await?;
        let row = rows.first().expect("the statement always returns a row");
        let read = || Ok::<_, Error>((columns::list::<Uuid>(row, 0)?, columns::list::<String>(row, 1)?));
        let (workspaces, names) = read().map_err(|error| StatementError::Disconnected(error.to_string()))?;
        Ok(workspaces.into_iter().zip(names).collect())
    }
}

/// The error of a pass. `Full` means that nothing was written, but an earlier pass may have written some of the ops:
/// the outcome of the batch is then unknown.
fn at_pass(pass_no: usize, error: Error) -> Error {
    match error {
        Error::Full(message) if pass_no > 0 => Error::Unavailable(message),
        error => error,
    }
}

/// Whether an op with the key of one of the batch was applied since the picture was read.
fn is_known_op(failure: &StatementError) -> bool {
    failure.is_taken() && failure.database().is_some_and(|error| error.constraint() == Some(OP_KEYS))
}
