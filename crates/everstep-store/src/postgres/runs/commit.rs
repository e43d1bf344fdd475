//! The commit: many items in one statement, each all or nothing.

use std::collections::{BTreeMap, BTreeSet};

use everstep_core::ids::{CommitId, NodeId, RunId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::batch::Batch;
use crate::error::{Error, Result};
use crate::item::{CommitOutcome, Gate, InboxId, Item, SentInput};
use crate::numbers;
use crate::pack::Packed;
use crate::postgres::columns;
use crate::postgres::errors::StatementError;
use crate::postgres::partitions::Week;
use crate::postgres::queries::{params, query};
use crate::postgres::store::PostgresStore;

/// The number of times that a batch is sent again after a conflict with another transaction.
const RETRIES_MAX: usize = 20;

impl PostgresStore {
    /// Writes a batch. An item that clashes with a stored row after its head was written fails the whole statement; the
    /// batch is then sent again without it. This is rare, and saves every other item a savepoint.
    pub(super) async fn commit_items(&self, node: NodeId, items: &[Item]) -> Result<Vec<CommitOutcome>> {
        let packed: Vec<_> = items.iter().map(Packed::borrow).collect();
        let mut clashed = BTreeSet::new();
        let mut retries = 0;
        loop {
            let indexes = (0..items.len()).filter(|index| !clashed.contains(index));
            let batch = Batch::gather(node, &packed, indexes)?;
            match self.send_batch(&batch).await {
                Ok(row) => return self.read_outcomes(node, items, &clashed, &batch, &row).await,
                Err(failure) if failure.is_to_be_resent() && retries < RETRIES_MAX => retries += 1,
                Err(failure) if failure.lacks_partition() && retries < RETRIES_MAX => {
                    retries += 1;
                    self.make_partitions(items.iter().map(|item| Week::of_run(item.run)).collect()).await?;
                }
                Err(failure) if failure.is_taken() => match find_clashing(&failure, items, &clashed) {
                    Some(index) => _ = clashed.insert(index),
                    None => return Err(failure.into()),
                },
                Err(failure) => return Err(failure.into()),
            };
        }
    }

    async fn send_batch(&self, batch: &Batch<'_>) -> Result<Row, StatementError> {
        let (statement, params) = batch.statement();
        let rows = self.connections.get().await?.query(statement, &params).await?;
        Ok(rows.into_iter().next().expect("the statement always returns a row"))
    }

    /// The outcomes of a batch that was written.
    async fn read_outcomes(
        &self,
        node: NodeId,
        items: &[Item],
        clashed: &BTreeSet<usize>,
        batch: &Batch<'_>,
        row: &Row,
    ) -> Result<Vec<CommitOutcome>> {
        if !columns::get::<bool>(row, 0)? {
            return Err(Error::Fenced(node));
        }
        let opened: BTreeSet<Uuid> = columns::list(row, 1)?.into_iter().collect();
        let is_applied = |index: usize| !clashed.contains(&index) && opened.contains(&items[index].run.uuid());
        let sent = read_sent(items, batch, row, &is_applied)?;
        let is_refused = |index: &usize| !clashed.contains(index) && !is_applied(*index);
        let refused: Vec<_> = (0..items.len()).filter(is_refused).collect();
        let mut refusals = self.read_refusals(node, items, &refused).await?;
        let outcomes = (0..items.len()).map(|index| {
            if clashed.contains(&index) {
                return CommitOutcome::Conflict;
            }
            if let Some(refusal) = refusals.remove(&index) {
                return refusal;
            }
            let first = batch.first_input(index).unwrap_or_default();
            CommitOutcome::Applied(sent[first..first + items[index].inbox_inputs.len()].to_vec())
        });
        Ok(outcomes.collect())
    }

    /// Why items were rejected, by their indexes.
    async fn read_refusals(
        &self,
        node: NodeId,
        items: &[Item],
        refused: &[usize],
    ) -> Result<BTreeMap<usize, CommitOutcome>> {
        if refused.is_empty() {
            return Ok(BTreeMap::new());
        }
        let items = || refused.iter().map(|index| &items[*index]);
        let key = |item: &Item| match &item.gate {
            Gate::Start(run) => run.key.clone().unzip(),
            Gate::Owned | Gate::Unowned => (None, None),
        };
        let (scopes, keys): (Vec<_>, Vec<_>) = items().map(key).unzip();
        let seqs: Vec<_> =
            items().map(|item| item.entries.first().map(|entry| numbers::clamp_seq(entry.seq))).collect();
        let rows = self
            .connections
            .query(
                query!("refusals"),
                params! {
                    "runs": items().map(|item| item.run.uuid()).collect::<Vec<_>>(),
                    "seqs": seqs,
                    "workspaces": items().map(|item| item.workspace.uuid()).collect::<Vec<_>>(),
                    "scopes": scopes,
                    "keys": keys,
                },
            )
            .await?;
        refused
            .iter()
            .zip(items())
            .zip(&rows)
            .map(|((index, item), row)| Ok((*index, refusal_from_row(node, item, row)?)))
            .collect()
    }
}

/// The item whose run the database names as the clashing one. A single item is not named.
fn find_clashing(failure: &StatementError, items: &[Item], clashed: &BTreeSet<usize>) -> Option<usize> {
    let mut left = (0..items.len()).filter(|index| !clashed.contains(index));
    if items.len() - clashed.len() == 1 {
        return left.next();
    }
    // "Key (run_id, seq)=(0199…, 4) already exists.": every unique index that a commit writes to begins with the run.
    let (_, key) = failure.database()?.detail()?.split_once("=(")?;
    left.find(|index| key.starts_with(&items[*index].run.to_string()))
}

/// The outcomes of the inbox inputs of a batch, in their order there.
fn read_sent(
    items: &[Item],
    batch: &Batch<'_>,
    row: &Row,
    is_applied: &dyn Fn(usize) -> bool,
) -> Result<Vec<SentInput>> {
    let mut sent = vec![SentInput { id: None, owner: None }; batch.count_inputs()];
    let (ordinals, ids, owners): (Vec<i64>, Vec<i64>, Vec<Option<Uuid>>) =
        (columns::list(row, 2)?, columns::list(row, 3)?, columns::list(row, 4)?);
    for ((ordinal, id), owner) in ordinals.into_iter().zip(ids).zip(owners) {
        let index =
            usize::try_from(ordinal - 1).map_err(|_| Error::Corrupt("an inbox input without a position".to_owned()))?;
        sent[index] = SentInput { id: Some(InboxId(id)), owner: owner.map(NodeId::from_uuid) };
    }
    if sent.is_empty() {
        return Ok(sent);
    }
    // The statement does not see the rows of the runs that it starts.
    let started: BTreeMap<RunId, &Item> = (0..items.len())
        .filter(|index| matches!(items[*index].gate, Gate::Start(_)) && is_applied(*index))
        .map(|index| (items[index].run, &items[index]))
        .collect();
    for (index, item) in items.iter().enumerate() {
        let Some(first) = batch.first_input(index) else { continue };
        for (input, sent) in item.inbox_inputs.iter().zip(&mut sent[first..]) {
            if let Some(receiver) = started.get(&input.to).filter(|_| sent.id.is_some()) {
                sent.owner = receiver.projection.as_ref().and_then(|projection| projection.owner);
            }
        }
    }
    Ok(sent)
}

/// Why an item was rejected, from its row of `refusals.sql`.
fn refusal_from_row(node: NodeId, item: &Item, row: &Row) -> Result<CommitOutcome> {
    let winner: Option<Uuid> = columns::get(row, 0)?;
    let is_seq_taken: bool = columns::get(row, 1)?;
    let commit: Option<Uuid> = columns::get(row, 2)?;
    let exists: bool = columns::get(row, 3)?;
    let owner: Option<Uuid> = columns::get(row, 4)?;
    if let Some(winner) = winner.map(RunId::from_uuid).filter(|winner| *winner != item.run) {
        return Ok(CommitOutcome::Exists(winner));
    }
    if is_seq_taken {
        let is_ours = commit.map(CommitId::from_uuid) == Some(item.commit);
        return Ok(if is_ours { CommitOutcome::Duplicate } else { CommitOutcome::Conflict });
    }
    // A start without entries is recognised by its run.
    if matches!(item.gate, Gate::Start(_)) && item.entries.is_empty() && exists {
        return Ok(CommitOutcome::Duplicate);
    }
    let is_open = match item.gate {
        Gate::Start(_) => true,
        Gate::Owned => exists && owner == Some(node.uuid()),
        Gate::Unowned => exists && owner.is_none(),
    };
    // If its seq is free and the run has the expected owner, the step's attempt is journaled under another seq, or an
    // inbox row that the item answers is missing.
    Ok(if is_open { CommitOutcome::Conflict } else { CommitOutcome::Lost })
}
