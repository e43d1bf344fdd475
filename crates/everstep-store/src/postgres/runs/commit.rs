//! The commit: many items in one statement, each all or nothing.

use std::collections::{BTreeMap, BTreeSet};

use everstep_core::ids::{CommitId, NodeId, RunId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::batch::Batch;
use crate::error::{Error, Result};
use crate::item::{Gate, InboxId, Item, Outcome, Sent};
use crate::numbers;
use crate::pack::Packed;
use crate::postgres::columns;
use crate::postgres::errors::Failure;
use crate::postgres::partitions::Week;
use crate::postgres::queries::{params, query};
use crate::postgres::store::PostgresStore;

/// How often a batch is sent again because others were in its way.
const TRIES: usize = 20;

impl PostgresStore {
    /// Writes a batch. An item that clashes with a stored row behind its head fails the whole statement;
    /// the batch is then sent again without it. That is rare, and spares every other item a savepoint.
    pub(super) async fn commit_items(&self, node: NodeId, items: &[Item]) -> Result<Vec<Outcome>> {
        let packed: Vec<_> = items.iter().map(Packed::of).collect();
        let mut clashed = BTreeSet::new();
        let mut tries = 0;
        loop {
            let places = (0..items.len()).filter(|place| !clashed.contains(place));
            let batch = Batch::of(node, &packed, places)?;
            match self.send(&batch).await {
                Ok(row) => return self.tell(node, items, &clashed, &batch, &row).await,
                Err(failure) if failure.is_to_be_resent() && tries < TRIES => tries += 1,
                Err(failure) if failure.lacks_partition() && tries < TRIES => {
                    tries += 1;
                    self.make_partitions(items.iter().map(|item| Week::of(item.run)).collect()).await?;
                }
                Err(failure) if failure.is_taken() => match clashing(&failure, items, &clashed) {
                    Some(place) => _ = clashed.insert(place),
                    None => return Err(failure.into()),
                },
                Err(failure) => return Err(failure.into()),
            };
        }
    }

    async fn send(&self, batch: &Batch<'_>) -> Result<Row, Failure> {
        let (statement, params) = batch.statement();
        let rows = self.connections.get().await?.query(statement, &params).await?;
        Ok(rows.into_iter().next().expect("the statement always returns a row"))
    }

    /// The outcomes of a batch that was sent.
    async fn tell(
        &self,
        node: NodeId,
        items: &[Item],
        clashed: &BTreeSet<usize>,
        batch: &Batch<'_>,
        row: &Row,
    ) -> Result<Vec<Outcome>> {
        if !columns::get::<bool>(row, 0)? {
            return Err(Error::Fenced(node));
        }
        let opened: BTreeSet<Uuid> = columns::list(row, 1)?.into_iter().collect();
        let is_applied = |place: usize| !clashed.contains(&place) && opened.contains(&items[place].run.uuid());
        let sent = sent(items, batch, row, &is_applied)?;
        let is_refused = |place: &usize| !clashed.contains(place) && !is_applied(*place);
        let refused: Vec<_> = (0..items.len()).filter(is_refused).collect();
        let mut refusals = self.refusals(node, items, &refused).await?;
        let outcomes = (0..items.len()).map(|place| {
            if clashed.contains(&place) {
                return Outcome::Conflict;
            }
            if let Some(refusal) = refusals.remove(&place) {
                return refusal;
            }
            let first = batch.first_letter(place).unwrap_or_default();
            Outcome::Applied(sent[first..first + items[place].messages.len()].to_vec())
        });
        Ok(outcomes.collect())
    }

    /// Why items were refused, by their places.
    async fn refusals(&self, node: NodeId, items: &[Item], refused: &[usize]) -> Result<BTreeMap<usize, Outcome>> {
        if refused.is_empty() {
            return Ok(BTreeMap::new());
        }
        let items = || refused.iter().map(|place| &items[*place]);
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
            .map(|((place, item), row)| Ok((*place, refusal(node, item, row)?)))
            .collect()
    }
}

/// The item whose run the database names as the one that clashes. A single item needs no naming.
fn clashing(failure: &Failure, items: &[Item], clashed: &BTreeSet<usize>) -> Option<usize> {
    let mut left = (0..items.len()).filter(|place| !clashed.contains(place));
    if items.len() - clashed.len() == 1 {
        return left.next();
    }
    // "Key (run_id, seq)=(0199…, 4) already exists.": every unique index that we write to begins with the run.
    let (_, key) = failure.database()?.detail()?.split_once("=(")?;
    left.find(|place| key.starts_with(&items[*place].run.to_string()))
}

/// What became of the messages of a batch, in their order there.
fn sent(items: &[Item], batch: &Batch<'_>, row: &Row, is_applied: &dyn Fn(usize) -> bool) -> Result<Vec<Sent>> {
    let mut sent = vec![Sent { id: InboxId(0), owner: None }; batch.letters()];
    let (places, ids, owners): (Vec<i64>, Vec<i64>, Vec<Option<Uuid>>) =
        (columns::list(row, 2)?, columns::list(row, 3)?, columns::list(row, 4)?);
    for ((place, id), owner) in places.into_iter().zip(ids).zip(owners) {
        let place = usize::try_from(place - 1).map_err(|_| Error::Corrupt("a message without a place".to_owned()))?;
        sent[place] = Sent { id: InboxId(id), owner: owner.map(NodeId::from_uuid) };
    }
    if sent.is_empty() {
        return Ok(sent);
    }
    // The statement does not see the rows of the runs that start with it.
    let started: BTreeMap<RunId, &Item> = (0..items.len())
        .filter(|place| matches!(items[*place].gate, Gate::Start(_)) && is_applied(*place))
        .map(|place| (items[place].run, &items[place]))
        .collect();
    for (place, item) in items.iter().enumerate() {
        let Some(first) = batch.first_letter(place) else { continue };
        for (message, sent) in item.messages.iter().zip(&mut sent[first..]) {
            if let Some(receiver) = started.get(&message.to).filter(|_| sent.id != InboxId(0)) {
                sent.owner = receiver.projection.as_ref().and_then(|projection| projection.owner);
            }
        }
    }
    Ok(sent)
}

/// Why an item was refused, from its row of `refusals.sql`.
fn refusal(node: NodeId, item: &Item, row: &Row) -> Result<Outcome> {
    let winner: Option<Uuid> = columns::get(row, 0)?;
    let is_place_taken: bool = columns::get(row, 1)?;
    let commit: Option<Uuid> = columns::get(row, 2)?;
    let exists: bool = columns::get(row, 3)?;
    let owner: Option<Uuid> = columns::get(row, 4)?;
    if let Some(winner) = winner.map(RunId::from_uuid).filter(|winner| *winner != item.run) {
        return Ok(Outcome::Exists(winner));
    }
    if is_place_taken {
        let is_ours = commit.map(CommitId::from_uuid) == Some(item.commit);
        return Ok(if is_ours { Outcome::Duplicate } else { Outcome::Conflict });
    }
    let is_open = match item.gate {
        Gate::Start(_) => true,
        Gate::Owned => exists && owner == Some(node.uuid()),
        Gate::Unowned => exists && owner.is_none(),
    };
    // Its place is free and the run is as it should be: the step's attempt stands elsewhere, or an input is gone.
    Ok(if is_open { Outcome::Conflict } else { Outcome::Lost })
}
