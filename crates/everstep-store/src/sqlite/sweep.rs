//! Deletes what is past its time.

use std::time::Duration;

use everstep_core::time::Timestamp;
use rusqlite::named_params;

use super::database::Database;
use super::queries::query;
use crate::error::Result;
use crate::numbers;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
/// How many entries one sweep deletes, so that commits do not wait for it.
const MOST_ENTRIES: usize = 20_000;
/// How many pages of the file are given back at once: 8 MiB.
const VACUUM: &str = "pragma incremental_vacuum(1024)";

impl Database {
    pub fn sweep(&mut self, now: Timestamp, limit: usize) -> Result<usize> {
        let limit = numbers::limit(limit);
        let tx = self.begin()?;
        let runs: Vec<[u8; 16]> = tx
            .prepare_cached(query!("sweep/1_runs"))?
            .query_map(named_params! { ":now": now.micros(), ":limit": limit }, |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let mut room = MOST_ENTRIES;
        let mut swept = 0;
        for run in &runs {
            let deleted = tx
                .prepare_cached(query!("sweep/2_journal"))?
                .execute(named_params! { ":run": run, ":limit": numbers::limit(room) })?;
            room -= deleted;
            // The rest of a long journal goes with later sweeps, and its run after it.
            if room == 0 {
                break;
            }
            for statement in
                [query!("sweep/2_waits"), query!("sweep/2_inbox"), query!("sweep/2_snapshots"), query!("sweep/2_run")]
            {
                tx.prepare_cached(statement)?.execute(named_params! { ":run": run })?;
            }
            swept += 1;
        }
        tx.prepare_cached(query!("sweep/3_inbox"))?
            .execute(named_params! { ":before": before(now, HOUR), ":limit": limit })?;
        // Leases are written by the database's clock, so they are compared with it.
        tx.prepare_cached(query!("sweep/4_nodes"))?.execute(named_params! { ":before": before(self.now(), DAY) })?;
        tx.commit()?;
        Ok(swept)
    }

    /// Gives free pages back. Each step of the statement frees one.
    pub fn maintain(&mut self) -> Result<()> {
        let mut statement = self.connection.prepare_cached(VACUUM)?;
        let mut freed = statement.query([])?;
        while freed.next()?.is_some() {}
        Ok(())
    }
}

fn before(now: Timestamp, age: Duration) -> i64 {
    now.micros().saturating_sub(i64::try_from(age.as_micros()).unwrap_or(i64::MAX))
}
