//! Deletes what is past its time.

use std::time::Duration;

use everstep_core::time::Timestamp;
use rusqlite::{Connection, named_params};

use super::database::Database;
use super::queries::query;
use crate::error::Result;
use crate::rows::{AUDIT_KEPT, AUDIT_PER_RUN, MOST_LOOKS, NEXT_LOOK};
use crate::{access, numbers};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
/// How many entries one transaction deletes, so that commits do not wait for it.
const MOST_ENTRIES: usize = 20_000;
/// How many pages of the file are given back at once: 8 MiB.
const VACUUM: &str = "pragma incremental_vacuum(1024)";

/// What one transaction has swept.
pub struct Swept {
    pub runs: usize,
    /// Whether it stopped within a journal. The rest goes with the next one; its run is gone already.
    pub is_cut: bool,
}

impl Database {
    pub fn sweep(&mut self, now: Timestamp, limit: usize) -> Result<Swept> {
        let most_audit = numbers::limit(limit.saturating_mul(AUDIT_PER_RUN));
        let limit = numbers::limit(limit);
        let tx = self.begin()?;
        let mut room = sweep_graves(&tx)?;
        let mut runs = 0;
        if room > 0 {
            for expired in Expired::find(&tx, now, limit)? {
                expired.delete(&tx)?;
                runs += 1;
                room -= delete_journal(&tx, expired.run, room)?;
                // Nobody may meet a run whose journal is cut, so its row goes first.
                if room == 0 {
                    tx.prepare_cached(query!("sweep/2_bury"))?.execute(named_params! { ":run": expired.run })?;
                    break;
                }
            }
        }
        tx.prepare_cached(query!("sweep/3_inbox"))?
            .execute(named_params! { ":before": before(now, HOUR), ":limit": limit })?;
        // Leases are written by the database's clock, so they are compared with it.
        tx.prepare_cached(query!("sweep/4_nodes"))?.execute(named_params! { ":before": before(self.now(), DAY) })?;
        let oldest = access::first_id(Timestamp::from_micros(before(now, AUDIT_KEPT)));
        tx.prepare_cached(query!("sweep/5_audit"))?
            .execute(named_params! { ":before": oldest.into_bytes(), ":limit": most_audit })?;
        sweep_versions(&tx, now)?;
        tx.commit()?;
        Ok(Swept { runs, is_cut: room == 0 })
    }

    /// Gives free pages back. Each step of the statement frees one.
    pub fn maintain(&mut self) -> Result<()> {
        let mut statement = self.connection.prepare_cached(VACUUM)?;
        let mut freed = statement.query([])?;
        while freed.next()?.is_some() {}
        Ok(())
    }
}

/// A run whose retention is over.
struct Expired {
    run: [u8; 16],
    workspace: [u8; 16],
    workflow: String,
    status: String,
    is_test: bool,
}

impl Expired {
    fn find(tx: &Connection, now: Timestamp, limit: i64) -> Result<Vec<Self>> {
        let mut statement = tx.prepare_cached(query!("sweep/1_runs"))?;
        let runs = statement.query_map(named_params! { ":now": now.micros(), ":limit": limit }, Self::read)?;
        Ok(runs.collect::<rusqlite::Result<_>>()?)
    }

    /// In the order of `sweep/1_runs.sql`.
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            run: row.get(0)?,
            workspace: row.get(1)?,
            workflow: row.get(2)?,
            status: row.get(3)?,
            is_test: row.get(4)?,
        })
    }

    /// Deletes its row and what belongs to it, but for the journal.
    fn delete(&self, tx: &Connection) -> Result<()> {
        for statement in
            [query!("sweep/2_run"), query!("sweep/2_waits"), query!("sweep/2_inbox"), query!("sweep/2_snapshots")]
        {
            tx.prepare_cached(statement)?.execute(named_params! { ":run": self.run })?;
        }
        if !self.is_test {
            tx.prepare_cached(query!("add_counts"))?.execute(named_params! {
                ":workspace": self.workspace, ":workflow": self.workflow, ":status": self.status, ":n": -1,
            })?;
        }
        Ok(())
    }
}

/// Deletes what is left of journals that a sweep stopped in. Returns how many entries may still be deleted.
fn sweep_graves(tx: &Connection) -> Result<usize> {
    let mut room = MOST_ENTRIES;
    for run in graves(tx)? {
        room -= delete_journal(tx, run, room)?;
        if room == 0 {
            break;
        }
        close_grave(tx, run)?;
    }
    Ok(room)
}

/// Runs whose rows are gone and of whose journals something is left.
pub(super) fn graves(tx: &Connection) -> rusqlite::Result<Vec<[u8; 16]>> {
    tx.prepare_cached(query!("sweep/1_graves"))?.query_map([], |row| row.get(0))?.collect()
}

/// Nothing is left of a run.
pub(super) fn close_grave(tx: &Connection, run: [u8; 16]) -> Result<()> {
    tx.prepare_cached(query!("sweep/2_close"))?.execute(named_params! { ":run": run })?;
    Ok(())
}

/// Deletes at most `room` entries of a journal. Returns how many it has deleted.
pub(super) fn delete_journal(tx: &Connection, run: [u8; 16], room: usize) -> Result<usize> {
    let params = named_params! { ":run": run, ":limit": numbers::limit(room) };
    Ok(tx.prepare_cached(query!("sweep/2_journal"))?.execute(params)?)
}

/// Deletes the versions of deleted workflows to which no run refers any more.
fn sweep_versions(tx: &Connection, now: Timestamp) -> Result<()> {
    let deleted: Vec<([u8; 16], String, u32)> = tx
        .prepare_cached(query!("sweep/6_deleted"))?
        .query_map(named_params! { ":now": now.micros(), ":limit": numbers::limit(MOST_LOOKS) }, |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    for (workspace, name, version) in deleted {
        let versions = named_params! { ":workspace": workspace, ":name": name, ":version": version };
        let is_in_use: bool = tx.prepare_cached(query!("sweep/7_refers"))?.query_row(versions, |row| row.get(0))?;
        if !is_in_use {
            tx.prepare_cached(query!("sweep/8_versions"))?.execute(versions)?;
        }
        tx.prepare_cached(query!("sweep/9_look"))?.execute(named_params! {
            ":workspace": workspace, ":name": name, ":look_at": is_in_use.then(|| now.plus(NEXT_LOOK).micros()),
        })?;
    }
    Ok(())
}

fn before(now: Timestamp, age: Duration) -> i64 {
    now.micros().saturating_sub(i64::try_from(age.as_micros()).unwrap_or(i64::MAX))
}
