//! Claiming runs: the rules of [`crate::claims`], in one statement.

use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::journal::FORMAT;
use everstep_core::time::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::claims::{ClaimResult, SERVER_LANE, visits_max};
use crate::error::{Error, Result};
use crate::postgres::columns;
use crate::postgres::queries::{params, query};
use crate::postgres::store::PostgresStore;
use crate::{numbers, texts};

impl PostgresStore {
    pub(super) async fn claim_lane(
        &self,
        node: NodeId,
        lane: &str,
        now: Timestamp,
        limit: usize,
        rotation: Option<WorkspaceId>,
    ) -> Result<ClaimResult> {
        if lane == SERVER_LANE {
            return self.claim_server_lane(node, now, limit, rotation).await;
        }
        let (lane, limit) = if texts::has_nul(lane) { ("", 0) } else { (lane, limit) };
        let row = self
            .heartbeat
            .query_one(
                query!("claim_runs/1_lane"),
                params! {
                    "node": node.uuid(),
                    "lane": lane,
                    "now": now.micros(),
                    "format": numbers::checked_integer(FORMAT)?,
                    "limit": numbers::clamp_limit(limit),
                },
            )
            .await?;
        Ok(ClaimResult { runs: read_claimed(&row, node)?, rotation })
    }

    async fn claim_server_lane(
        &self,
        node: NodeId,
        now: Timestamp,
        limit: usize,
        rotation: Option<WorkspaceId>,
    ) -> Result<ClaimResult> {
        let row = self
            .heartbeat
            .query_one(
                query!("claim_runs/2_server" with "claim_runs/3_shares"),
                params! {
                    "node": node.uuid(),
                    "now": now.micros(),
                    "format": numbers::checked_integer(FORMAT)?,
                    "limit": numbers::clamp_limit(limit),
                    "rotation": begin_after(rotation),
                    "visits_max": numbers::clamp_limit(visits_max(limit)),
                },
            )
            .await?;
        Ok(ClaimResult { runs: read_claimed(&row, node)?, rotation: read_rotation(&row, 2)?.or(rotation) })
    }

    pub(super) async fn find_due_workspaces(
        &self,
        now: Timestamp,
        after: Option<WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<(WorkspaceId, bool)>> {
        let rows = self
            .heartbeat
            .query(
                query!("claim_runs/4_workspaces"),
                params! {
                    "after": begin_after(after),
                    "now": now.micros(),
                    "limit": numbers::clamp_limit(limit),
                },
            )
            .await?;
        rows.iter().map(|row| Ok((WorkspaceId::from_uuid(columns::get(row, 0)?), columns::get(row, 1)?))).collect()
    }

    pub(super) async fn claim_one_workspace(
        &self,
        node: NodeId,
        workspace: WorkspaceId,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<RunId>> {
        let row = self
            .heartbeat
            .query_one(
                query!("claim_runs/5_workspace"),
                params! {
                    "node": node.uuid(),
                    "workspace": workspace.uuid(),
                    "now": now.micros(),
                    "format": numbers::checked_integer(FORMAT)?,
                    "limit": numbers::clamp_limit(limit),
                },
            )
            .await?;
        read_claimed(&row, node)
    }
}

/// The id after which the circle of workspaces begins.
pub(super) fn begin_after(rotation: Option<WorkspaceId>) -> Uuid {
    rotation.map_or(Uuid::nil(), WorkspaceId::uuid)
}

/// The workspace that was visited last; none if no workspace was visited.
pub(super) fn read_rotation(row: &Row, column: usize) -> Result<Option<WorkspaceId>> {
    let visited: Option<Uuid> = columns::get(row, column)?;
    Ok(visited.filter(|visited| !visited.is_nil()).map(WorkspaceId::from_uuid))
}

fn read_claimed(row: &Row, node: NodeId) -> Result<Vec<RunId>> {
    if !columns::get::<bool>(row, 0)? {
        return Err(Error::Fenced(node));
    }
    Ok(columns::list::<Uuid>(row, 1)?.into_iter().map(RunId::from_uuid).collect())
}
