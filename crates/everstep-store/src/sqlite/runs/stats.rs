//! Figures of runs over time.

use std::collections::BTreeMap;

use everstep_core::ids::WorkspaceId;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, named_params};

use crate::error::Result;
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;
use crate::stats::{DURATION_BUCKETS, MinuteStats, RunStats, StatsQuery};

/// Adds to the figures of a minute.
pub(super) fn add(tx: &Connection, workspace: WorkspaceId, minute: &MinuteStats) -> Result<()> {
    let MinuteStats { workflow, minute, stats } = minute;
    let workspace = workspace.uuid().into_bytes();
    let before = tx
        .prepare_cached(query!("add_counts/2_durations"))?
        .query_row(named_params! { ":workspace": workspace, ":minute": minute, ":workflow": workflow }, |row| {
            read_durations(&row.get::<_, String>(0)?)
        })
        .optional()?;
    let mut durations = before.unwrap_or_default();
    for (sum, count) in durations.iter_mut().zip(stats.durations) {
        *sum += count;
    }
    tx.prepare_cached(query!("add_counts/3_stats"))?.execute(named_params! {
        ":workspace": workspace,
        ":minute": minute,
        ":workflow": workflow,
        ":started": stats.started,
        ":completed": stats.completed,
        ":failed": stats.failed,
        ":cancelled": stats.cancelled,
        ":durations": serde_json::to_string(&durations).expect("numbers can be written as JSON"),
    })?;
    Ok(())
}

fn read_durations(text: &str) -> rusqlite::Result<[i64; DURATION_BUCKETS]> {
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))
}

impl Database {
    pub fn run_stats(&self, workspace: WorkspaceId, query: &StatsQuery) -> Result<Vec<(usize, RunStats)>> {
        let StatsQuery { since, until, every, workflow } = query;
        let mut statement = self.connection.prepare_cached(query!("run_stats"))?;
        let mut rows = statement.query(named_params! {
            ":workspace": workspace.uuid().into_bytes(), ":since": since, ":until": until, ":workflow": workflow,
        })?;
        let mut periods: BTreeMap<usize, RunStats> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let period = (row.get::<_, i64>(0)? - since) / (*every).max(1);
            let durations = read_durations(&row.get::<_, String>(5)?)?;
            let (started, completed) = (row.get(1)?, row.get(2)?);
            let minute = RunStats { started, completed, failed: row.get(3)?, cancelled: row.get(4)?, durations };
            periods.entry(usize::try_from(period).unwrap_or_default()).or_default().add(&minute);
        }
        Ok(periods.into_iter().collect())
    }
}
