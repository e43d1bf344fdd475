//! Deletes expired rows.

use std::time::Duration;

use everstep_core::time::Timestamp;
use rusqlite::{Connection, named_params};

use crate::error::Result;
use crate::retention::{
    AUDIT_RETENTION, AUDIT_ROWS_PER_RUN_MAX, DELETED_WORKFLOW_RECHECK_INTERVAL, DELETED_WORKFLOWS_PER_SWEEP_MAX,
    INBOX_RETENTION, RUN_STATS_RETENTION, SIGN_IN_KEY_RETENTION, WORKFLOW_KEY_RETENTION,
};
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;
use crate::{access, numbers, stats};

/// The retention of fenced nodes after the end of their lease.
const FENCED_NODE_RETENTION: Duration = Duration::from_secs(86_400);
/// The maximum number of entries that one transaction deletes, if its time is not measured.
const ENTRIES_PER_TRANSACTION_MAX: usize = 20_000;
/// A run counts as so many rows, beside its entries: its row is in several indexes.
const ROWS_OF_RUN: usize = 4;
/// Frees at most 32 pages of the file: 256 KiB.
const VACUUM: &str = "pragma incremental_vacuum(32)";
/// The bounds of a transaction on a full disk: it is written to the log before it frees space.
const RUNS_ON_FULL_DISK_MAX: usize = 16;
const ENTRIES_ON_FULL_DISK_MAX: usize = 256;
const VACUUM_ON_FULL_DISK: &str = "pragma incremental_vacuum(64)";
const VACUUMS_ON_FULL_DISK_MAX: usize = 64;

/// The result of one transaction of a sweep.
pub struct SweepResult {
    pub runs: usize,
    /// The deleted rows, about.
    pub rows: usize,
    /// Whether it stopped before the limit of runs, because it had deleted enough rows: perhaps within a journal. The run
    /// of that journal is already deleted; the next sweep deletes the rest.
    pub is_cut: bool,
}

impl Database {
    /// Deletes expired runs, and as much of everything else that expires. See [`Database::sweep_runs`].
    pub fn sweep(&mut self, now: Timestamp, limit: usize) -> Result<SweepResult> {
        let swept = self.sweep_runs(now, limit, ENTRIES_PER_TRANSACTION_MAX.saturating_add(limit * ROWS_OF_RUN))?;
        self.sweep_figures(now, limit.saturating_mul(AUDIT_ROWS_PER_RUN_MAX))?;
        self.sweep_others(now, limit)?;
        Ok(swept)
    }

    /// Deletes at most `limit` expired runs, and about `rows_max` rows.
    pub fn sweep_runs(&mut self, now: Timestamp, limit: usize, rows_max: usize) -> Result<SweepResult> {
        let (limit, rows_max) = match self.is_refusing() {
            true => (limit.min(RUNS_ON_FULL_DISK_MAX), rows_max.min(ENTRIES_ON_FULL_DISK_MAX)),
            false => (limit, rows_max),
        };
        // No more than can be deleted are looked for.
        let found_max = limit.min(rows_max / ROWS_OF_RUN + 1);
        let tx = self.begin()?;
        let mut room = sweep_graves(&tx, rows_max)?;
        let (mut runs, mut rows) = (0, rows_max - room);
        if room > 0 {
            for expired in Expired::find(&tx, now, numbers::clamp_limit(found_max))? {
                expired.delete(&tx)?;
                runs += 1;
                // The last run may exceed the number of rows by its own.
                room = room.saturating_sub(ROWS_OF_RUN).max(1);
                let entries = delete_journal(&tx, expired.run, room)?;
                room -= entries;
                rows += ROWS_OF_RUN + entries;
                // A run without its whole journal must not be visible, so its row is deleted first.
                if room == 0 {
                    tx.prepare_cached(query!("sweep/2_bury"))?.execute(named_params! { ":run": expired.run })?;
                    break;
                }
                if room == 1 {
                    break;
                }
            }
        }
        tx.commit()?;
        Ok(SweepResult { runs, rows, is_cut: runs < limit && (room <= 1 || runs == found_max) })
    }

    /// Deletes expired rows of the audit, figures of minutes and keys of changes of workflows, at most `limit` of each.
    /// Returns the largest number.
    pub fn sweep_figures(&mut self, now: Timestamp, limit: usize) -> Result<usize> {
        let limit = numbers::clamp_limit(limit);
        let tx = self.begin()?;
        let oldest = access::first_id(Timestamp::from_micros(before(now, AUDIT_RETENTION)));
        let audit_rows = tx
            .prepare_cached(query!("sweep/5_audit"))?
            .execute(named_params! { ":before": oldest.into_bytes(), ":limit": limit })?;
        let first_minute = stats::minute_of(Timestamp::from_micros(before(now, RUN_STATS_RETENTION)));
        let stats_rows = tx
            .prepare_cached(query!("sweep/5_stats"))?
            .execute(named_params! { ":before": first_minute, ":limit": limit })?;
        let keys = tx
            .prepare_cached(query!("sweep/5_workflow_keys"))?
            .execute(named_params! { ":before": before(now, WORKFLOW_KEY_RETENTION), ":limit": limit })?;
        tx.commit()?;
        Ok(audit_rows.max(stats_rows).max(keys))
    }

    /// Deletes other expired rows that do not belong to runs: few, and at most `limit` inbox rows. Returns their number.
    pub fn sweep_others(&mut self, now: Timestamp, limit: usize) -> Result<usize> {
        let limit = numbers::clamp_limit(limit);
        let tx = self.begin()?;
        let inbox_rows = tx
            .prepare_cached(query!("sweep/3_inbox"))?
            .execute(named_params! { ":before": before(now, INBOX_RETENTION), ":limit": limit })?;
        // Leases are measured by the database's clock.
        tx.prepare_cached(query!("sweep/4_nodes"))?
            .execute(named_params! { ":before": before(self.now(), FENCED_NODE_RETENTION) })?;
        tx.prepare_cached(query!("sweep/5_keys"))?
            .execute(named_params! { ":before": before(now, SIGN_IN_KEY_RETENTION) })?;
        sweep_versions(&tx, now)?;
        tx.commit()?;
        Ok(inbox_rows)
    }

    /// Frees some unused pages. Returns whether there are more. On a full disk it frees all of them, and makes the file
    /// smaller at once, in small steps.
    pub fn maintain(&mut self) -> Result<bool> {
        if !self.is_refusing() {
            self.vacuum(VACUUM)?;
            return Ok(self.count_free_pages()? > 0);
        }
        for _ in 0..VACUUMS_ON_FULL_DISK_MAX {
            self.vacuum(VACUUM_ON_FULL_DISK)?;
            self.cut_log();
            if self.count_free_pages()? == 0 {
                break;
            }
        }
        self.measure_disk();
        Ok(false)
    }

    fn count_free_pages(&self) -> Result<u32> {
        Ok(self.connection.pragma_query_value(None, "freelist_count", |row| row.get(0))?)
    }

    /// Executes a statement that returns rows; each step of a vacuum frees one page.
    fn vacuum(&self, statement: &str) -> Result<()> {
        let mut statement = self.connection.prepare_cached(statement)?;
        let mut freed = statement.query([])?;
        while freed.next()?.is_some() {}
        Ok(())
    }
}

/// A run whose retention has passed.
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

    /// Deletes its rows, except for the journal.
    fn delete(&self, tx: &Connection) -> Result<()> {
        for statement in [
            query!("sweep/2_run"),
            query!("sweep/2_waits"),
            query!("sweep/2_inbox"),
            query!("sweep/2_snapshots"),
            query!("sweep/2_terms"),
        ] {
            tx.prepare_cached(statement)?.execute(named_params! { ":run": self.run })?;
        }
        if !self.is_test {
            tx.prepare_cached(query!("add_counts/1_counts"))?.execute(named_params! {
                ":workspace": self.workspace, ":workflow": self.workflow, ":status": self.status, ":n": -1,
            })?;
        }
        Ok(())
    }
}

/// Deletes the rest of journals that a sweep deleted only partly. Returns the number of entries that may still be
/// deleted.
fn sweep_graves(tx: &Connection, entries_max: usize) -> Result<usize> {
    let mut room = entries_max;
    for run in graves(tx)? {
        room -= delete_journal(tx, run, room)?;
        if room == 0 {
            break;
        }
        close_grave(tx, run)?;
    }
    Ok(room)
}

/// Runs whose row is deleted, and whose journal is not deleted completely.
pub(super) fn graves(tx: &Connection) -> rusqlite::Result<Vec<[u8; 16]>> {
    tx.prepare_cached(query!("sweep/1_graves"))?.query_map([], |row| row.get(0))?.collect()
}

/// Records that a deleted run's journal is deleted completely.
pub(super) fn close_grave(tx: &Connection, run: [u8; 16]) -> Result<()> {
    tx.prepare_cached(query!("sweep/2_close"))?.execute(named_params! { ":run": run })?;
    Ok(())
}

/// Deletes at most `room` entries of a journal. Returns the number of deleted entries.
pub(super) fn delete_journal(tx: &Connection, run: [u8; 16], room: usize) -> Result<usize> {
    let params = named_params! { ":run": run, ":limit": numbers::clamp_limit(room) };
    Ok(tx.prepare_cached(query!("sweep/2_journal"))?.execute(params)?)
}

/// Deletes the versions of deleted workflows to which no run refers.
fn sweep_versions(tx: &Connection, now: Timestamp) -> Result<()> {
    let deleted: Vec<([u8; 16], String, u32)> = tx
        .prepare_cached(query!("sweep/6_deleted"))?
        .query_map(
            named_params! { ":now": now.micros(), ":limit": numbers::clamp_limit(DELETED_WORKFLOWS_PER_SWEEP_MAX) },
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )?
        .collect::<rusqlite::Result<_>>()?;
    for (workspace, name, version) in deleted {
        let versions = named_params! { ":workspace": workspace, ":name": name, ":version": version };
        let is_in_use: bool = tx.prepare_cached(query!("sweep/7_refers"))?.query_row(versions, |row| row.get(0))?;
        if !is_in_use {
            tx.prepare_cached(query!("sweep/8_versions"))?.execute(versions)?;
        }
        tx.prepare_cached(query!("sweep/9_look"))?.execute(named_params! {
            ":workspace": workspace, ":name": name, ":look_at": is_in_use.then(|| now.plus(DELETED_WORKFLOW_RECHECK_INTERVAL).micros()),
        })?;
    }
    Ok(())
}

/// The time `age` before `now`, in microseconds.
fn before(now: Timestamp, age: Duration) -> i64 {
    now.micros().saturating_sub(numbers::micros(age))
}
