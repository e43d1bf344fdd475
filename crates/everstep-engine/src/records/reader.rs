//! Reads records by their keys, the gets of many callers in one call.

use std::sync::Arc;

use everstep_core::ids::WorkspaceId;
use everstep_core::records::Record;
use everstep_handlers::Place;
use everstep_store::{RecordKey, RecordStore, Result};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use crate::batch::{BatchPort, Rejection};
use crate::error::Error;

/// A get on its way to the database.
pub(super) struct GetRequest {
    /// Absent only while the store has it.
    pub(super) key: Option<RecordKey>,
    pub(super) workspace: WorkspaceId,
    /// Its place among the gets that wait, until it is sent.
    pub(super) place: Option<Place>,
    pub(super) reply: oneshot::Sender<Result<Option<Record>, Error>>,
}

pub(super) struct RecordReader {
    pub(super) store: Arc<dyn RecordStore>,
}

impl BatchPort for RecordReader {
    type Request = GetRequest;
    type Answer = Option<Record>;

    fn send<'a>(
        &'a self,
        batch: &'a mut [GetRequest],
    ) -> BoxFuture<'a, everstep_store::Result<Vec<Option<Option<Record>>>>> {
        Box::pin(async move {
            batch.iter_mut().for_each(|request| request.place = None);
            let keys: Vec<RecordKey> =
                batch.iter_mut().map(|request| request.key.take().expect("not yet sent")).collect();
            let records = self.store.get(&keys).await;
            for (request, key) in batch.iter_mut().zip(keys) {
                request.key = Some(key);
            }
            Ok(records?.into_iter().map(Some).collect())
        })
    }

    fn answer(&self, request: GetRequest, answer: std::result::Result<Option<Record>, Rejection>) {
        let answer = answer.map_err(|rejection| match rejection {
            Rejection::Refused(message) => Error::Refused(message),
            Rejection::Full(message) => Error::Full(message),
            Rejection::Unreadable(message) => Error::Unavailable(message),
        });
        // The caller may have stopped waiting.
        let _ = request.reply.send(answer);
    }

    fn workspace(&self, request: &GetRequest) -> WorkspaceId {
        request.workspace
    }

    fn size(&self, _: &GetRequest) -> usize {
        0
    }

    fn is_wanted(&self, request: &GetRequest) -> bool {
        !request.reply.is_closed()
    }

    fn waits_for_space(&self, _: &GetRequest) -> bool {
        true
    }

    /// A read changes nothing, whichever node owns the run.
    fn may_send(&self) -> bool {
        true
    }
}
