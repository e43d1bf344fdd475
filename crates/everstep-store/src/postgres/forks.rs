//! Runs that come from others, and test runs that go early.

use std::collections::BTreeSet;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::time::Timestamp;

use super::partitions::Week;
use super::queries::{params, query};
use super::rows;
use super::store::PostgresStore;
use crate::error::Result;
use crate::numbers;

/// How often a fork is sent again because others were in its way.
const TRIES: usize = 20;

impl PostgresStore {
    pub(super) async fn fork(
        &self,
        workspace: WorkspaceId,
        source: RunId,
        at: u64,
        run: RunId,
        now: Timestamp,
    ) -> Result<Option<u64>> {
        let (workspace, source, id) = (workspace.uuid(), source.uuid(), run.uuid());
        let (at, now) = (numbers::place(at), now.micros());
        let params = params! { "source": source, "at": at, "workspace": workspace, "run": id, "now": now };
        let mut tries = 0;
        loop {
            // The connection is given back before another is asked for.
            let sent = self.connections.get().await?.query(query!("fork_run"), params).await;
            match sent {
                Ok(rows) => return rows.first().map(|row| rows::seq(row, 0)).transpose(),
                Err(failure) if failure.is_to_be_resent() && tries < TRIES => tries += 1,
                Err(failure) if failure.lacks_partition() && tries < TRIES => {
                    tries += 1;
                    self.make_partitions(BTreeSet::from([Week::of(run)])).await?;
                }
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    pub(super) async fn remove_test_run(&self, workspace: WorkspaceId, run: RunId) -> Result<bool> {
        let (workspace, run) = (workspace.uuid(), run.uuid());
        let params = params! { "run": run, "workspace": workspace };
        let row = self.connections.query_one(query!("delete_test_run"), params).await?;
        Ok(rows::get::<i64>(&row, 0)? == 1)
    }
}
