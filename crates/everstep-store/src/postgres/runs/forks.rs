//! Forks of runs.

use std::collections::BTreeSet;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::time::Timestamp;

use super::arrays::AuditRows;
use crate::error::Result;
use crate::item::SideWrites;
use crate::numbers;
use crate::postgres::columns;
use crate::postgres::partitions::Week;
use crate::postgres::queries::{params, query};
use crate::postgres::store::PostgresStore;

/// The number of times that a fork is sent again after a conflict with another transaction.
const RETRIES_MAX: usize = 20;

impl PostgresStore {
    pub(super) async fn fork(
        &self,
        workspace: WorkspaceId,
        source: RunId,
        at: u64,
        run: RunId,
        now: Timestamp,
        side: &SideWrites,
    ) -> Result<Option<u64>> {
        let (workspace, source, id) = (workspace.uuid(), source.uuid(), run.uuid());
        let (at, now) = (numbers::clamp_seq(at), now.micros());
        let mut audit = AuditRows::default();
        side.audit.iter().for_each(|row| audit.push(row));
        let params = params! { "source": source, "at": at, "workspace": workspace, "run": id, "now": now };
        let params: Vec<_> = params.iter().cloned().chain(audit.params()).collect();
        let mut retries = 0;
        loop {
            // The connection is returned to the pool before another is requested.
            let sent = self.connections.get().await?.query(query!("fork_run"), &params).await;
            match sent {
                Ok(rows) => return rows.first().map(|row| columns::seq(row, 0)).transpose(),
                Err(failure) if failure.is_to_be_resent() && retries < RETRIES_MAX => retries += 1,
                Err(failure) if failure.lacks_partition() && retries < RETRIES_MAX => {
                    retries += 1;
                    self.make_partitions(BTreeSet::from([Week::of_run(run)])).await?;
                }
                Err(failure) => return Err(failure.into()),
            }
        }
    }
}
