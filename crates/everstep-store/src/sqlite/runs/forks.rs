//! Forks of runs, and deletion of test runs.

use everstep_core::ids::{RunId, WorkspaceId};
use rusqlite::{OptionalExtension, named_params};

use super::sweep::{close_grave, delete_journal};
use crate::error::Result;
use crate::item::NewFork;
use crate::sqlite::access::insert_audit;
use crate::sqlite::columns;
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;
use crate::sqlite::search::insert_fork_terms;
use crate::{numbers, pack, texts};

impl Database {
    pub fn fork_run(&mut self, workspace: WorkspaceId, source: RunId, fork: &NewFork) -> Result<Option<u64>> {
        let NewFork { run, at, now, first_payload, origin, side } = fork;
        texts::check_side(side)?;
        let first = first_payload.clone().map(pack::pack);
        let (first_codec, first_payload) = first.map(|(codec, payload)| (codec.number(), payload)).unzip();
        let (id, source) = (run.uuid().into_bytes(), source.uuid().into_bytes());
        let tx = self.begin()?;
        let last = tx
            .prepare_cached(query!("fork_run/1_end"))?
            .query_row(
                named_params! {
                    ":workspace": workspace.uuid().into_bytes(), ":source": source, ":at": numbers::clamp_seq(*at),
                },
                |row| columns::seq(row, 0),
            )
            .optional()?;
        let Some(last) = last else {
            return Ok(None);
        };
        // A fork with an idempotency key may get the id of a deleted one, whose journal may not be deleted completely.
        delete_journal(&tx, id, usize::MAX)?;
        close_grave(&tx, id)?;
        tx.prepare_cached(query!("fork_run/2_run"))?.execute(named_params! {
            ":run": id, ":source": source, ":now": now.micros(),
        })?;
        tx.prepare_cached(query!("fork_run/3_entries"))?.execute(named_params! {
            ":run": id, ":source": source, ":last": numbers::clamp_seq(last),
            ":first_codec": first_codec, ":first_payload": first_payload,
        })?;
        insert_fork_terms(&tx, workspace, *run, origin, *now)?;
        for row in &side.audit {
            insert_audit(&tx, row)?;
        }
        tx.commit()?;
        Ok(Some(last))
    }

    pub fn delete_test_run(&mut self, workspace: WorkspaceId, run: RunId) -> Result<bool> {
        let run = run.uuid().into_bytes();
        let tx = self.begin()?;
        let deleted = tx
            .prepare_cached(query!("delete_test_run"))?
            .execute(named_params! { ":run": run, ":workspace": workspace.uuid().into_bytes() })?;
        if deleted == 1 {
            delete_journal(&tx, run, usize::MAX)?;
            for statement in [query!("sweep/2_waits"), query!("sweep/2_inbox"), query!("sweep/2_snapshots")] {
                tx.prepare_cached(statement)?.execute(named_params! { ":run": run })?;
            }
        }
        tx.commit()?;
        Ok(deleted == 1)
    }
}
