//! Jobs of the sweeper: deletes expired records, and changes that are no longer kept.

use everstep_core::records::{Author, DeleteOutput, ExpireRequest, NewOp, OpAction};
use everstep_store::{Error, ExpiredRecord, OpOutcome, Result};
use futures_util::future;

use crate::ports::World;

/// Deletes records that have expired, by ops: a record that is written again before its op is applied is kept.
/// Returns the number of records that were found, or zero if none of them could be deleted.
pub(crate) async fn delete_expired_records(world: &World, batch: usize) -> Result<usize> {
    let expired = world.records.store().expired(world.clock.now(), batch).await?;
    let found = expired.len();
    let ops = expired.into_iter().map(|record| world.records.apply(expire(record)));
    let mut deleted = 0;
    for outcome in future::join_all(ops).await {
        let outcome = outcome.map_err(|error| Error::Unavailable(error.to_string()))?;
        deleted += usize::from(is_deleted(&outcome));
    }
    if deleted == 0 {
        return Ok(0);
    }
    world.observe.records_expired(deleted);
    Ok(found)
}

fn expire(record: ExpiredRecord) -> NewOp {
    let ExpiredRecord { key, change } = record;
    // Each node has an op of its own: of several that delete one record, one has deleted it, and counts it.
    NewOp {
        workspace: key.workspace,
        key: None,
        namespace: key.namespace,
        author: Author::system(),
        action: OpAction::Expire(ExpireRequest { key: key.key, change }),
    }
}

fn is_deleted(outcome: &OpOutcome) -> bool {
    let output = outcome.as_ref().ok().and_then(|output| serde_json::from_str::<DeleteOutput>(output.json()).ok());
    output.is_some_and(|output| output.deleted)
}

/// Deletes changes that are no longer kept.
pub(crate) async fn delete_old_changes(world: &World, batch: usize) -> Result<usize> {
    world.records.store().sweep_changes(world.clock.now(), batch).await
}
