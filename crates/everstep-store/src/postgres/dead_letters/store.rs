//! The port.

use async_trait::async_trait;
use everstep_core::dead_letter::{DeadLetterSource, DeadLetterStatus};
use everstep_core::ids::{DeadLetterId, NodeId, RunId, WorkspaceId};
use everstep_core::time::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::rows::letter_from_row;
use crate::access::first_id;
use crate::dead_letters::{
    ChangedLetters, DeadLetterClaim, DeadLetterFilter, DeadLetterQuery, DeadLetterResult, DeadLetterRetention,
    DeadLetterRow, TakenLetters, counts_by_source,
};
use crate::error::{Error, Result};
use crate::ports::DeadLetterStore;
use crate::postgres::columns;
use crate::postgres::queries::{Param, param, params, query};
use crate::postgres::store::PostgresStore;
use crate::{numbers, texts};

/// The values of a filter, in the types of the database.
struct FilterColumns<'a> {
    workspace: Uuid,
    from: Uuid,
    to: Uuid,
    source: Option<&'a str>,
    kind: Option<&'a str>,
    workflow: Option<&'a str>,
    run: Option<Uuid>,
    error: Option<&'a str>,
    limit: i64,
}

impl<'a> FilterColumns<'a> {
    fn new(workspace: WorkspaceId, filter: &'a DeadLetterFilter, (from, to): (Uuid, Uuid), limit: usize) -> Self {
        Self {
            workspace: workspace.uuid(),
            from,
            to,
            source: filter.source.map(DeadLetterSource::as_str),
            kind: filter.kind.as_deref(),
            workflow: filter.workflow.as_deref(),
            run: filter.run.map(RunId::uuid),
            error: filter.error.as_deref(),
            limit: numbers::clamp_limit(limit),
        }
    }

    /// Without the run.
    fn params(&self) -> Vec<Param<'_>> {
        vec![
            param("workspace", &self.workspace),
            param("from", &self.from),
            param("to", &self.to),
            param("source", &self.source),
            param("kind", &self.kind),
            param("workflow", &self.workflow),
            param("error", &self.error),
            param("limit", &self.limit),
        ]
    }

    fn params_with_run(&self) -> Vec<Param<'_>> {
        let mut params = self.params();
        params.push(param("run", &self.run));
        params
    }
}

/// A dead letter counts as so many rows of a sweep: it is in several indexes.
const ROWS_OF_LETTER: usize = 4;

#[async_trait]
impl DeadLetterStore for PostgresStore {
    async fn list_letters(&self, workspace: WorkspaceId, query: &DeadLetterQuery) -> Result<Vec<DeadLetterRow>> {
        let filter = &query.filter;
        if filter.is_empty() {
            return Ok(Vec::new());
        }
        let columns = FilterColumns::new(workspace, filter, query.bounds(), query.limit);
        let status = filter.status.map(DeadLetterStatus::as_str);
        let (statement, params) = match (filter.run, &status) {
            (Some(_), status) => {
                let mut params = columns.params_with_run();
                params.push(param("status", status));
                (query!("dead_letters/list_letters/3_of_run"), params)
            }
            (None, Some(status)) => {
                let mut params = columns.params();
                params.push(param("status", status));
                (query!("dead_letters/list_letters/2_with_status"), params)
            }
            (None, None) => (query!("dead_letters/list_letters/1_all"), columns.params()),
        };
        let rows = self.connections.query(statement, &params).await?;
        rows.iter().filter_map(|row| letter_from_row(row, 0).transpose()).collect()
    }

    async fn letter(&self, workspace: WorkspaceId, id: DeadLetterId) -> Result<Option<DeadLetterRow>> {
        let (workspace, id) = (workspace.uuid(), id.uuid());
        let params = params! { "workspace": workspace, "id": id };
        let row = self.connections.query_opt(query!("dead_letters/letter"), params).await?;
        Ok(row.as_ref().map(|row| letter_from_row(row, 0)).transpose()?.flatten())
    }

    async fn count_letters(&self, workspace: WorkspaceId, filter: &DeadLetterFilter, limit: usize) -> Result<u64> {
        if !filter.selects_dead() {
            return Ok(0);
        }
        let columns = FilterColumns::new(workspace, filter, filter.bounds(), limit);
        let (statement, params) = match filter.run {
            None => (query!("dead_letters/count_letters/1_of_workspace"), columns.params()),
            Some(_) => (query!("dead_letters/count_letters/2_of_run"), columns.params_with_run()),
        };
        columns::seq(&self.connections.query_one(statement, &params).await?, 0)
    }

    async fn count_dead_letters(&self) -> Result<Vec<(DeadLetterSource, u64)>> {
        let rows = self.connections.query(query!("dead_letters/count_dead_letters"), &[]).await?;
        let counted = rows.iter().map(|row| Ok((columns::get(row, 0)?, columns::seq(row, 1)?)));
        Ok(counts_by_source(counted.collect::<Result<_>>()?))
    }

    async fn queue_letters(
        &self,
        workspace: WorkspaceId,
        filter: &DeadLetterFilter,
        now: Timestamp,
        limit: usize,
    ) -> Result<ChangedLetters> {
        if !filter.selects_dead() {
            return Ok(ChangedLetters::default());
        }
        let now = now.micros();
        let columns = FilterColumns::new(workspace, filter, filter.bounds(), limit);
        let (statement, mut params) = match filter.run {
            None => (query!("dead_letters/queue_letters/1_of_workspace"), columns.params()),
            Some(_) => (query!("dead_letters/queue_letters/2_of_run"), columns.params_with_run()),
        };
        params.push(param("now", &now));
        changed(&self.connections.query_one(statement, &params).await?)
    }

    async fn discard_letters(
        &self,
        workspace: WorkspaceId,
        filter: &DeadLetterFilter,
        reason: Option<&str>,
        now: Timestamp,
        limit: usize,
    ) -> Result<ChangedLetters> {
        texts::check(reason)?;
        if !filter.selects_dead() {
            return Ok(ChangedLetters::default());
        }
        let now = now.micros();
        let columns = FilterColumns::new(workspace, filter, filter.bounds(), limit);
        let (statement, mut params) = match filter.run {
            None => (query!("dead_letters/discard_letters/1_of_workspace"), columns.params()),
            Some(_) => (query!("dead_letters/discard_letters/2_of_run"), columns.params_with_run()),
        };
        params.extend([param("now", &now), param("reason", &reason)]);
        changed(&self.connections.query_one(statement, &params).await?)
    }

    async fn take_letters(&self, node: NodeId, claim: &DeadLetterClaim) -> Result<TakenLetters> {
        let ids = |ids: &[DeadLetterId]| ids.iter().map(|id| id.uuid()).collect::<Vec<_>>();
        let targets = &claim.crowded_targets;
        let rows = self
            .connections
            .query(
                query!("dead_letters/take_letters"),
                params! {
                    "node": node.uuid(),
                    "crowded": claim.crowded.iter().map(|workspace| workspace.uuid()).collect::<Vec<_>>(),
                    "crowded_workspaces": targets.iter().map(|target| target.workspace.uuid()).collect::<Vec<_>>(),
                    "crowded_kinds": targets.iter().map(|target| target.kind.as_str()).collect::<Vec<_>>(),
                    "crowded_prefixes": targets.iter().map(|target| target.prefix.as_str()).collect::<Vec<_>>(),
                    "held": ids(&claim.held),
                    "letters_max": numbers::clamp_limit(claim.letters_max),
                    "notices_since": first_id(claim.notices_since),
                    "held_notices": ids(&claim.held_notices),
                    "notices_max": numbers::clamp_limit(claim.notices_max),
                },
            )
            .await?;
        let mut taken = TakenLetters::default();
        for row in &rows {
            if columns::seq(row, 0)? == 0 {
                return Err(Error::Fenced(node));
            }
            let Some(is_queued) = columns::get::<Option<bool>>(row, 1)? else { continue };
            let is_due: bool = columns::get(row, 2)?;
            let Some(letter) = letter_from_row(row, 3)? else { continue };
            if is_due {
                taken.notices.push(letter.clone());
            }
            if is_queued {
                taken.letters.push(letter);
            }
        }
        Ok(taken)
    }

    async fn settle_letters(&self, node: NodeId, results: &[DeadLetterResult]) -> Result<()> {
        self.settle(node, results).await
    }

    async fn sweep_letters(&self, retention: DeadLetterRetention, limit: usize) -> Result<usize> {
        let DeadLetterRetention { dead_before, settled_before } = retention;
        let (dead_before, settled_before) = (dead_before.micros(), settled_before.micros());
        let params = params! { "dead_before": dead_before, "settled_before": settled_before };
        self.sweep_all(limit, ROWS_OF_LETTER, query!("dead_letters/sweep_letters"), params).await
    }
}

/// The number and the last id that a statement returns.
fn changed(row: &Row) -> Result<ChangedLetters> {
    let last: Option<Uuid> = columns::get(row, 1)?;
    Ok(ChangedLetters { count: columns::seq(row, 0)?, last: last.map(DeadLetterId::from_uuid) })
}
