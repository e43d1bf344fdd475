//! The transactions of a run of ten steps, as the database counts them.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::stage::Stage;
use super::worker::Carrier;
use crate::bench::args::{Plan, Site};
use crate::bench::connection::Answer;
use crate::bench::report;

const RUNS: usize = 200;
/// Runs before them: the first run of a workflow reads more.
const WARM_UP_RUNS: usize = 20;
const CAPACITY: usize = 100;
/// The position of `iChange` in the header of SQLite's wal-index, which every transaction increments:
/// <https://sqlite.org/walformat.html>.
const CHANGES_POSITION: u64 = 8;
/// A connection of PostgreSQL without work reports its transactions within 10 s.
const REPORT_PERIOD: Duration = Duration::from_secs(11);
const IDLE_PERIOD: Duration = Duration::from_secs(2);

/// The transactions of one run.
pub(super) struct Commits {
    /// All of them; on SQLite those that write.
    pub(super) all: f64,
    /// Those that write.
    pub(super) writing: f64,
}

/// Executes runs one after the other. The transactions of an idle server in the same time are subtracted.
///
/// None if the server of the database was not started for this measurement.
pub(super) async fn count(plan: &Plan, part: &str) -> anyhow::Result<Option<Commits>> {
    report::tell(&format!("{part}: transactions of {RUNS} runs"));
    let stage = Stage::set(plan, part, Carrier::Socket, CAPACITY).await?;
    execute(&stage, WARM_UP_RUNS).await?;
    let counts = count_on(plan, &stage).await?;
    stage.clear().await?;
    Ok(counts)
}

async fn count_on(plan: &Plan, stage: &Stage) -> anyhow::Result<Option<Commits>> {
    let site = stage.scratch.site();
    settle(&site).await;
    let Some(first) = Reading::measure(plan, &site)? else { return Ok(None) };
    tokio::time::sleep(IDLE_PERIOD).await;
    settle(&site).await;
    let Some(before) = Reading::measure(plan, &site)? else { return Ok(None) };
    execute(stage, RUNS).await?;
    settle(&site).await;
    let Some(after) = Reading::measure(plan, &site)? else { return Ok(None) };
    let idle = before.at.duration_since(first.at).as_secs_f64();
    let busy = after.at.duration_since(before.at).as_secs_f64();
    let per_run = |count: fn(&Reading) -> f64| {
        let expected = (count(&before) - count(&first)) / idle * busy;
        (count(&after) - count(&before) - expected) / RUNS as f64
    };
    Ok(Some(Commits { all: per_run(|reading| reading.all), writing: per_run(|reading| reading.writing) }))
}

/// Executes runs one after the other.
async fn execute(stage: &Stage, runs: usize) -> anyhow::Result<()> {
    let mut connection = stage.connect().await?;
    let request = stage.start_request("chain", "?waitSeconds=30");
    for _ in 0..runs {
        let Answer { status, body } = connection.ask(&request).await?;
        ensure!(status == 201 && body.contains("\"completed\""), "no run: {status} {body}");
    }
    Ok(())
}

/// Waits until the database has counted all transactions.
async fn settle(site: &Site) {
    if matches!(site, Site::Postgres(_)) {
        tokio::time::sleep(REPORT_PERIOD).await;
    }
}

/// The transactions of a database up to a moment.
struct Reading {
    at: Instant,
    all: f64,
    writing: f64,
}

impl Reading {
    fn measure(plan: &Plan, site: &Site) -> anyhow::Result<Option<Self>> {
        let at = Instant::now();
        Ok(match site {
            Site::Sqlite(folder) => {
                let changes = f64::from(read_changes(&folder.join("everstep.db-shm"))?);
                Some(Self { at, all: changes, writing: changes })
            }
            Site::Postgres(url) => {
                let all = |name: &str| format!("select xact_commit from pg_stat_database where datname = '{name}'");
                // A transaction has a number when it writes for the first time.
                let writing = |_: &str| "select pg_snapshot_xmax(pg_current_snapshot())".to_owned();
                let readings = plan.query_server(url, all).zip(plan.query_server(url, writing));
                readings.map(|(all, writing)| Self { at, all, writing })
            }
        })
    }
}

fn read_changes(index: &Path) -> anyhow::Result<u32> {
    let reading = || format!("reading {}", index.display());
    let mut file = std::fs::File::open(index).with_context(reading)?;
    let mut bytes = [0; 4];
    file.seek(SeekFrom::Start(CHANGES_POSITION)).with_context(reading)?;
    file.read_exact(&mut bytes).with_context(reading)?;
    Ok(u32::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn every_transaction_of_sqlite_that_writes_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("everstep.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("pragma journal_mode = wal; create table t (x)").unwrap();
        let index = folder.path().join("everstep.db-shm");
        let before = read_changes(&index).unwrap();
        for n in 0..5 {
            connection.execute("insert into t values (?1)", [n]).unwrap();
        }
        connection.query_row("select count(*) from t", (), |row| row.get::<_, i64>(0)).unwrap();
        connection.execute_batch("begin; insert into t values (5); insert into t values (6); commit").unwrap();
        connection.query_row("pragma wal_checkpoint(truncate)", (), |_| Ok(())).unwrap();
        connection.execute("insert into t values (7)", ()).unwrap();
        assert_eq!(read_changes(&index).unwrap() - before, 7);
    }
}
