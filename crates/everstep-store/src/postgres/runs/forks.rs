//! Forks of runs.

use std::collections::BTreeSet;

use everstep_core::ids::{RunId, WorkspaceId};

use super::arrays::AuditRows;
use crate::error::Result;
use crate::item::NewFork;
use crate::numbers;
use crate::pack;
use crate::postgres::columns;
use crate::postgres::partitions::Week;
use crate::postgres::queries::{params, query};
use crate::postgres::search::RunTerms;
use crate::postgres::store::PostgresStore;

/// The number of times that a fork is sent again after a conflict with another transaction.
const RETRIES_MAX: usize = 20;

impl PostgresStore {
    pub(super) async fn fork(&self, workspace: WorkspaceId, source: RunId, fork: NewFork) -> Result<Option<u64>> {
        let NewFork { run, at, now, first_payload, origin, side } = fork;
        let mut run_terms = RunTerms::default();
        run_terms.push_fork(workspace, run, &origin, now);
        let (workspace, source, id) = (workspace.uuid(), source.uuid(), run.uuid());
        let (at, now) = (numbers::clamp_seq(at), now.micros());
        let first = first_payload.map(pack::pack);
        let (first_codec, first_payload) = first.map(|(codec, bytes)| (i16::from(codec.number()), bytes)).unzip();
        let mut audit = AuditRows::default();
        side.audit.iter().for_each(|row| audit.push(row));
        let first_payload = first_payload.as_deref();
        let params = params! {
            "source": source, "at": at, "workspace": workspace, "run": id, "now": now, "first_codec": first_codec,
            "first_payload": first_payload,
        };
        let params: Vec<_> = params.iter().cloned().chain(run_terms.params()).chain(audit.params()).collect();
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
