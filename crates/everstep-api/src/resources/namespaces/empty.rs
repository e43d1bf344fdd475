//! `DELETE /v1/namespaces/{namespace}`: deletes the records and links of a namespace, in batches.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use everstep_core::payload::Payload;
use everstep_core::records::{
    DeleteOutput, DeleteRequest, ExpireRequest, LinkId, LinksRequest, OpAction, PAGE_ITEMS_MAX, Record, RecordQuery,
    UnlinkOutput, UnlinkRequest,
};
use futures_util::future;

use super::wire::EmptiedNamespace;
use crate::auth::Caller;
use crate::http::problem::Problem;
use crate::resources::store::{NamespacePath, apply, check_namespace, read_output, refuse, refuse_query};
use crate::server::AppState;

/// Records and links that are deleted together, each by an op of its own.
const BATCH_ITEMS: usize = 500;
/// Records and links that one request deletes.
const DELETED_MAX: usize = 100_000;
/// No batch begins after this time, so that the request is answered before clients give up.
const TIME_MAX: Duration = Duration::from_secs(20);

/// Empties a namespace, also of records that have expired and are not yet swept. Writes of others during the request may remain.
pub(super) async fn delete(
    State(app): State<AppState>,
    caller: Caller,
    NamespacePath(namespace): NamespacePath,
) -> Result<Json<EmptiedNamespace>, Problem> {
    check_namespace(&app, caller.workspace, &namespace).await?;
    let began = Instant::now();
    let mut rest = Contents { app: &app, caller: &caller, namespace: &namespace, place: Place::Records(None) };
    let (mut sent, mut deleted) = (0, 0);
    loop {
        let batch = match rest.next_batch().await {
            Ok(batch) => batch,
            Err(problem) => return stop(deleted, problem),
        };
        if batch.is_empty() {
            return Ok(Json(EmptiedNamespace { deleted, more: false }));
        }
        if sent >= DELETED_MAX || began.elapsed() >= TIME_MAX {
            return Ok(Json(EmptiedNamespace { deleted, more: true }));
        }
        sent += batch.len();
        for outcome in future::join_all(batch.into_iter().map(|item| rest.delete(item))).await {
            match outcome {
                Ok(count) => deleted += count,
                Err(problem) => return stop(deleted, problem),
            }
        }
    }
}

/// The answer if the data store fails. The caller learns of the deletions before it, and repeats the request.
fn stop(deleted: u64, problem: Problem) -> Result<Json<EmptiedNamespace>, Problem> {
    if deleted == 0 { Err(problem) } else { Ok(Json(EmptiedNamespace { deleted, more: true })) }
}

/// The records and links of a namespace that are not yet deleted.
struct Contents<'a> {
    app: &'a AppState,
    caller: &'a Caller,
    namespace: &'a str,
    place: Place,
}

/// The end of the last page.
enum Place {
    Records(Option<String>),
    Links(Option<String>),
    End,
}

/// A record or a link that is to be deleted.
enum Item {
    Record(Record),
    Link(LinkId),
}

impl Contents<'_> {
    /// The next batch; empty at the end.
    async fn next_batch(&mut self) -> Result<Vec<Item>, Problem> {
        let mut batch = Vec::new();
        while batch.len() < BATCH_ITEMS {
            let limit = BATCH_ITEMS - batch.len();
            match &self.place {
                Place::Records(after) => {
                    let query =
                        RecordQuery { limit, after: after.clone(), values: false, ..RecordQuery::new(self.namespace) };
                    let records = self.app.engine.records();
                    let page = records.list_with_expired(self.caller.workspace, &query).await?;
                    batch.extend(page.records.into_iter().map(Item::Record));
                    self.place = page.next.map_or(Place::Links(None), |next| Place::Records(Some(next)));
                }
                Place::Links(after) => {
                    let request = LinksRequest {
                        namespace: self.namespace.to_owned(),
                        left_type: None,
                        right_type: None,
                        relation: None,
                        limit: limit.min(PAGE_ITEMS_MAX),
                        cursor: after.clone(),
                    };
                    let query = request.into_query().map_err(refuse_query)?;
                    let page = self.app.engine.records().links(self.caller.workspace, &query).await?;
                    batch.extend(page.matches.into_iter().map(|found| Item::Link(found.link.id)));
                    self.place = page.next.map_or(Place::End, |next| Place::Links(Some(next.to_cursor())));
                }
                Place::End => break,
            }
        }
        Ok(batch)
    }

    /// Deletes one record or link. Returns 0 if another request has deleted it.
    async fn delete(&self, item: Item) -> Result<u64, Problem> {
        match item {
            Item::Record(record) => self.delete_record(record).await.map(u64::from),
            Item::Link(id) => {
                let unlink = OpAction::Unlink(UnlinkRequest { id: Some(id), ..UnlinkRequest::default() });
                read_output(&self.apply(unlink).await?).map(|UnlinkOutput { deleted_count }| deleted_count)
            }
        }
    }

    /// For a delete, an expired record does not exist: another op deletes it, also if it has expired since it was listed.
    async fn delete_record(&self, record: Record) -> Result<bool, Problem> {
        if record.is_live(self.app.engine.world().clock.now()) {
            let request = DeleteRequest { key: record.key.clone(), if_revision: None, if_change: None };
            let DeleteOutput { deleted } = read_output(&self.apply(OpAction::Delete(request)).await?)?;
            if deleted {
                return Ok(true);
            }
        }
        let request = ExpireRequest { key: record.key, change: record.change };
        let DeleteOutput { deleted } = read_output(&self.apply(OpAction::Expire(request)).await?)?;
        Ok(deleted)
    }

    async fn apply(&self, action: OpAction) -> Result<Payload, Problem> {
        apply(self.app, self.caller, None, self.namespace, action).await?.map_err(refuse)
    }
}
