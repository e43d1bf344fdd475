//! Claiming runs: the rules of [`crate::claims`], one statement for each visit and each share.

use std::collections::BTreeMap;

use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::journal::FORMAT;
use everstep_core::planted::{self, Bug};
use everstep_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, named_params};

use super::nodes;
use crate::claims::{ClaimResult, SERVER_LANE, visits_max};
use crate::error::Result;
use crate::numbers;
use crate::sqlite::columns;
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;

impl Database {
    pub fn claim_runs(
        &mut self,
        node: NodeId,
        lane: &str,
        now: Timestamp,
        limit: usize,
        rotation: Option<WorkspaceId>,
    ) -> Result<ClaimResult> {
        let tx = self.begin()?;
        nodes::check_member(&tx, node)?;
        let claimed = Claim { tx: &tx, node, lane, now }.claim(limit, rotation)?;
        tx.commit()?;
        Ok(claimed)
    }

    pub fn due_workspaces(
        &self,
        now: Timestamp,
        after: Option<WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<(WorkspaceId, bool)>> {
        let (mut visited, mut last) = (Vec::new(), after);
        while visited.len() < limit {
            let Some((workspace, wake_at)) = next_workspace(&self.connection, SERVER_LANE, last)? else { break };
            visited.push((workspace, wake_at <= now));
            last = Some(workspace);
        }
        Ok(visited)
    }

    pub fn claim_workspace(
        &mut self,
        node: NodeId,
        workspace: WorkspaceId,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<RunId>> {
        let tx = self.begin()?;
        nodes::check_member(&tx, node)?;
        let mut claimed = Vec::new();
        Claim { tx: &tx, node, lane: SERVER_LANE, now }.claim_share(workspace, limit, &mut claimed)?;
        tx.commit()?;
        Ok(in_rounds(claimed))
    }
}

/// A claim of a lane, inside a transaction of a member.
pub(super) struct Claim<'a> {
    pub(super) tx: &'a Connection,
    pub(super) node: NodeId,
    pub(super) lane: &'a str,
    pub(super) now: Timestamp,
}

/// A run that was claimed, as far as its place among the others depends on it.
type ClaimedRun = (Timestamp, RunId, WorkspaceId);

impl Claim<'_> {
    pub(super) fn claim(&self, limit: usize, rotation: Option<WorkspaceId>) -> Result<ClaimResult> {
        let mut claimed = Vec::new();
        let mut last = rotation;
        if self.lane == SERVER_LANE && limit > 0 && self.is_crowded(limit)? {
            let (sharers, visited) = self.visit(limit, rotation)?;
            last = visited;
            for (place, workspace) in sharers.iter().enumerate() {
                let share = limit / sharers.len() + usize::from(place < limit % sharers.len());
                self.claim_share(*workspace, share, &mut claimed)?;
            }
        }
        if claimed.len() < limit {
            self.claim_oldest(limit - claimed.len(), &mut claimed)?;
        }
        Ok(ClaimResult { runs: in_rounds(claimed), rotation: last })
    }

    /// Whether more runs are due than there are places.
    fn is_crowded(&self, limit: usize) -> Result<bool> {
        if planted::is_planted(Bug::ClaimByTimeAlone) {
            return Ok(false);
        }
        let mut statement = self.tx.prepare_cached(query!("claim_runs/1_crowd"))?;
        let params = named_params! {
            ":lane": self.lane,
            ":now": self.now.micros(),
            ":format": FORMAT,
            ":limit": numbers::clamp_limit(limit),
        };
        Ok(statement.query_row(params, |row| row.get(0))?)
    }

    /// Visits workspaces in a circle after `rotation`. Returns those with due runs, and the one that was visited last.
    fn visit(&self, limit: usize, rotation: Option<WorkspaceId>) -> Result<(Vec<WorkspaceId>, Option<WorkspaceId>)> {
        let mut sharers = Vec::new();
        let (mut last, mut is_second_round) = (rotation, rotation.is_none());
        for _ in 0..visits_max(limit) {
            if sharers.len() == limit {
                break;
            }
            let mut next = next_workspace(self.tx, self.lane, last)?;
            if next.is_none() && !is_second_round {
                is_second_round = true;
                next = next_workspace(self.tx, self.lane, None)?;
            }
            let is_closed = |workspace| is_second_round && rotation.is_some_and(|rotation| workspace > rotation);
            let Some((workspace, wake_at)) = next.filter(|(workspace, _)| !is_closed(*workspace)) else { break };
            last = Some(workspace);
            if wake_at <= self.now {
                sharers.push(workspace);
            }
        }
        Ok((sharers, last))
    }

    fn claim_share(&self, workspace: WorkspaceId, limit: usize, claimed: &mut Vec<ClaimedRun>) -> Result<()> {
        let mut statement = self.tx.prepare_cached(query!("claim_runs/3_share"))?;
        let params = named_params! {
            ":node": self.node.uuid().into_bytes(),
            ":lane": self.lane,
            ":workspace": workspace.uuid().into_bytes(),
            ":now": self.now.micros(),
            ":format": FORMAT,
            ":limit": numbers::clamp_limit(limit),
        };
        for run in statement.query_map(params, read_claimed)? {
            claimed.push(run?);
        }
        Ok(())
    }

    fn claim_oldest(&self, limit: usize, claimed: &mut Vec<ClaimedRun>) -> Result<()> {
        let mut statement = self.tx.prepare_cached(query!("claim_runs/4_oldest"))?;
        let params = named_params! {
            ":node": self.node.uuid().into_bytes(),
            ":lane": self.lane,
            ":now": self.now.micros(),
            ":format": FORMAT,
            ":limit": numbers::clamp_limit(limit),
        };
        for run in statement.query_map(params, read_claimed)? {
            claimed.push(run?);
        }
        Ok(())
    }
}

/// The next workspace with unowned runs that become due, with the time of the first of them.
fn next_workspace(
    connection: &Connection,
    lane: &str,
    after: Option<WorkspaceId>,
) -> Result<Option<(WorkspaceId, Timestamp)>> {
    let mut statement = connection.prepare_cached(query!("claim_runs/2_workspace"))?;
    // An empty blob is less than any other.
    let after = after.map_or(Vec::new(), |workspace| workspace.uuid().into_bytes().to_vec());
    let params = named_params! { ":lane": lane, ":after": after };
    let read = |row: &Row<'_>| Ok((WorkspaceId::from_uuid(columns::uuid(row, 0)?), columns::time(row, 1)?));
    Ok(statement.query_row(params, read).optional()?)
}

fn read_claimed(row: &Row<'_>) -> rusqlite::Result<ClaimedRun> {
    let workspace = WorkspaceId::from_uuid(columns::uuid(row, 2)?);
    Ok((columns::time(row, 1)?, RunId::from_uuid(columns::uuid(row, 0)?), workspace))
}

/// The oldest run of each workspace, then the second one of each, and so on. An update returns its rows in no defined
/// order.
fn in_rounds(mut claimed: Vec<ClaimedRun>) -> Vec<RunId> {
    claimed.sort_unstable();
    let mut rounds: BTreeMap<WorkspaceId, usize> = BTreeMap::new();
    let next_round = |(_, run, workspace)| {
        let round = rounds.entry(workspace).or_default();
        *round += 1;
        (*round, run)
    };
    let mut runs: Vec<_> = claimed.into_iter().map(next_round).collect();
    runs.sort_by_key(|(round, _)| *round);
    runs.into_iter().map(|(_, run)| run).collect()
}
