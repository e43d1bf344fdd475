//! The partitions of the journal: a table for each week of runs.
//!
//! PostgreSQL's relation cache has a race with attaching a partition. A connection that reads the list of partitions
//! while one is being attached can miss the new one, and PostgreSQL does not invalidate that list again before the next
//! change: the connection would find no partition for runs of that week. The order of events that prevents this:
//!
//! 1. In one transaction, under the lock of the schema: create the table, attach it, and mark it with a comment as
//!    *unannounced*.
//! 2. In a second transaction: lock the journal exclusively, so that no connection is reading the list; invalidate the
//!    caches of all connections; remove the comment. The attempt to lock is limited to 200 ms and repeated after 300
//!    ms, because every user of the journal queues behind a waiter.
//! 3. If the lock cannot be obtained for the duration of a call timeout, because a long transaction reads the journal:
//!    invalidate the caches without it. Every connection that was reading the list has finished by then.
//! 4. If the process crashes between 1 and 2, the comment remains, and the next maintenance of any node announces the
//!    partition.
//!
//! A partition that is not needed before the week after next skips the comment: the next attached partition announces
//! it.
//!
//! A partition is dropped with its last run, in this order: mark it with a comment as *doomed*; detach it, while
//! writers continue; check again for runs of that week, and attach it again if there are any; drop it. A table without
//! the comment was detached by an administrator and is never dropped.

use std::collections::BTreeSet;
use std::time::Duration;

use everstep_core::ids::RunId;
use everstep_core::time::Timestamp;
use tokio::time::{Instant, sleep};
use tokio_postgres::Row;
use uuid::Uuid;

use super::columns;
use super::connection::Connection;
use super::errors::StatementError;
use super::queries::{params, query};
use super::schema;
use super::store::PostgresStore;
use crate::error::Result;

const DAY_MILLIS: i64 = 86_400_000;
const WEEK_MILLIS: i64 = 7 * DAY_MILLIS;
/// Weeks begin on Mondays; the Unix epoch is a Thursday.
const FIRST_MONDAY_MILLIS: i64 = -3 * DAY_MILLIS;
/// The number of weeks for which partitions are created ahead.
const WEEKS_AHEAD: i64 = 4;
/// Waits for locks on the journal are short, because all later users of the table queue behind a waiter.
const SET_LOCK_TIMEOUT: &str = "set local lock_timeout = '1s'";
/// Invalidates the journal in the cache of every connection, without changing it.
const INVALIDATE_CACHES: &str = "alter table only journal alter column run_id set statistics -1";
/// Excludes all other users of the journal until the transaction ends, so that no connection is reading the list of
/// partitions. All others wait, so the attempt is brief.
const LOCK_JOURNAL: &str = "set local lock_timeout = '200ms'; lock table only journal in access exclusive mode";
/// A lock on a single partition blocks no other user of the journal. A vacuum yields after a second.
const SET_NOTE_LOCK_TIMEOUT: &str = "set local lock_timeout = '2s'";
/// The pause between two attempts to lock the journal, for its other users.
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(300);
/// The number of runs that one statement deletes from a partition, and the number of statements in one call of
/// `maintain`.
const THIN_BATCH_RUNS: i64 = 500;
const THIN_BATCHES_MAX: usize = 20;
/// The comment on a partition that is detached to be dropped. Tables of other owners do not have it.
const DOOMED_NOTE: &str = "everstep: its runs are gone, and it is about to be dropped";
/// The comment on a partition that some connections may not know yet.
const UNANNOUNCED_NOTE: &str = "everstep: attached, but not every connection may know it yet";
/// The number of times that attaching partitions is retried, after a second each time.
const ATTACH_RETRIES_MAX: usize = 10;
/// The time limit for detaching a partition. If it takes longer, a later call detaches it.
const DETACH_TIMEOUT: Duration = Duration::from_secs(10);

/// A week of runs, by the time in their ids, counted from the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Week(i64);

impl Week {
    pub(super) fn of_run(run: RunId) -> Self {
        // The first 48 bits of an id are milliseconds.
        Self::at(i64::try_from(run.uuid().as_u128() >> 80).expect("48 bits"))
    }

    fn at(millis: i64) -> Self {
        Self((millis - FIRST_MONDAY_MILLIS).div_euclid(WEEK_MILLIS).max(0))
    }

    fn begin(self) -> i64 {
        self.0 * WEEK_MILLIS + FIRST_MONDAY_MILLIS
    }

    /// The ids of this week: from the first, up to before the second.
    fn ids(self) -> (Uuid, Uuid) {
        let id = |week: Self| match u128::try_from(week.begin()) {
            Ok(millis) if millis < 1 << 48 => Uuid::from_u128(millis << 80),
            Ok(_) => Uuid::max(),
            Err(_) => Uuid::nil(),
        };
        (id(self), id(Self(self.0 + 1)))
    }

    /// `journal_2026_11_09`: the first day of the week.
    fn table(self) -> String {
        let day = Timestamp::from_millis(self.begin()).to_string();
        match day.get(..10).filter(|_| day.as_bytes()[4] == b'-') {
            Some(day) => format!("journal_{}", day.replace('-', "_")),
            // A time outside the calendar.
            None => format!("journal_week_{}", self.0),
        }
    }

    fn from_table(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("journal_")?;
        let week = match rest.strip_prefix("week_") {
            Some(number) => Self(number.parse().ok()?),
            None => Self::at(format!("{}T00:00:00Z", rest.replace('_', "-")).parse::<Timestamp>().ok()?.millis()),
        };
        (week.table() == name).then_some(week)
    }
}

/// A table that is or was a partition.
struct Partition {
    week: Week,
    is_attached: bool,
    is_leaving: bool,
    is_doomed: bool,
    is_unannounced: bool,
}

impl Partition {
    fn is_usable(&self) -> bool {
        self.is_attached && !self.is_leaving
    }
}

impl PostgresStore {
    /// Creates the partitions of some weeks that are needed now, unless they exist.
    ///
    /// A call that needs a partition which another call has just created waits for that call's lock: a new partition is
    /// in the catalogue a moment before the caches of all connections are invalidated.
    pub(super) async fn make_partitions(&self, weeks: BTreeSet<Week>) -> Result<()> {
        self.attach_partitions(&weeks, &format!("'{UNANNOUNCED_NOTE}'")).await?;
        self.announce_partitions(&weeks).await
    }

    async fn attach_partitions(&self, weeks: &BTreeSet<Week>, note: &str) -> Result<()> {
        let mut retries = 0;
        loop {
            match self.try_to_attach_partitions(weeks, note).await {
                Err(failure) if failure.is_to_be_resent() && retries < ATTACH_RETRIES_MAX => retries += 1,
                result => return Ok(result?),
            }
        }
    }

    async fn try_to_attach_partitions(&self, weeks: &BTreeSet<Week>, note: &str) -> Result<(), StatementError> {
        let connection = self.connections.get().await?;
        connection.begin("begin").await?;
        // Waits without a limit for other calls that create partitions.
        schema::lock(&connection).await?;
        connection.define(SET_LOCK_TIMEOUT).await?;
        let known = partitions(&connection).await?;
        for week in weeks {
            match known.iter().find(|partition| partition.week == *week) {
                Some(partition) if partition.is_usable() => {}
                Some(partition) => {
                    if partition.is_leaving {
                        connection.define(&detach(*week, "finalize")).await?;
                    }
                    attach(&connection, *week, note).await?;
                }
                None => {
                    let table = week.table();
                    connection.define(&format!("create table {table} (like journal including all)")).await?;
                    attach(&connection, *week, note).await?;
                }
            }
        }
        connection.commit().await
    }

    /// Invalidates the caches of all connections after partitions were attached: steps 2 and 3 of the order of events
    /// at the top of this file.
    async fn announce_partitions(&self, weeks: &BTreeSet<Week>) -> Result<()> {
        // One call at a time, so that other users of the journal can proceed between two attempts.
        let _announcing = self.announcing.lock().await;
        let (began, limit) = (Instant::now(), self.connections.call_timeout);
        loop {
            let how = if began.elapsed() <= limit { LOCK_JOURNAL } else { SET_LOCK_TIMEOUT };
            match self.try_to_announce(weeks, how).await {
                Err(failure) if failure.is_to_be_resent() && began.elapsed() < 2 * limit => {
                    sleep(LOCK_RETRY_PAUSE).await;
                }
                result => return Ok(result?),
            }
        }
    }

    async fn try_to_announce(&self, weeks: &BTreeSet<Week>, how: &str) -> Result<(), StatementError> {
        let connection = self.connections.get().await?;
        connection.begin("begin").await?;
        schema::lock(&connection).await?;
        let mut unannounced = partitions(&connection).await?;
        unannounced.retain(|partition| partition.is_unannounced && weeks.contains(&partition.week));
        if !unannounced.is_empty() {
            let notes =
                unannounced.iter().map(|partition| format!("comment on table {} is null; ", partition.week.table()));
            connection
                .define(&format!("{SET_NOTE_LOCK_TIMEOUT}; {}{how}; {INVALIDATE_CACHES}", notes.collect::<String>()))
                .await?;
        }
        connection.commit().await
    }

    /// Creates the partitions of this week and the coming ones, and announces those whose creator did not.
    pub(super) async fn make_partitions_ahead(&self, now: Timestamp) -> Result<()> {
        let this = Week::at(now.millis());
        let weeks: BTreeSet<_> = (this.0..=this.0 + WEEKS_AHEAD).map(Week).collect();
        let known = partitions(&self.connections.get().await?).await?;
        let is_there = |week: &Week| known.iter().any(|known| known.week == *week && known.is_usable());
        match weeks.iter().find(|week| !is_there(week)) {
            None => {}
            // The next attached partition announces it, before it is needed.
            Some(week) if week.0 > this.0 + 1 => self.attach_partitions(&weeks, "null").await?,
            Some(_) => self.make_partitions(weeks).await?,
        }
        let unannounced: BTreeSet<_> =
            known.iter().filter(|known| known.is_unannounced).map(|known| known.week).collect();
        if unannounced.is_empty() { Ok(()) } else { self.announce_partitions(&unannounced).await }
    }

    /// Creates partitions ahead, drops those without runs, and deletes the entries of deleted runs from those with few
    /// runs left.
    pub(super) async fn maintain_partitions(&self, now: Timestamp) -> Result<()> {
        self.make_partitions_ahead(now).await?;
        // A run may start with an id that is a week old.
        let old = Week::at(now.millis().saturating_sub(WEEK_MILLIS));
        let known = partitions(&self.connections.get().await?).await?;
        for partition in known.into_iter().filter(|partition| partition.week < old) {
            match self.maintain_partition(&partition).await {
                Ok(()) => {}
                // Another node may be maintaining it, or a long transaction reads it. A later call retries.
                Err(error) => {
                    tracing::info!(%error, table = partition.week.table(), "the maintenance of a partition is postponed to a later call");
                }
            }
        }
        Ok(())
    }

    async fn maintain_partition(&self, partition: &Partition) -> Result<()> {
        let week = partition.week;
        // An administrator may have detached it to keep it.
        let is_ours = partition.is_usable() || partition.is_doomed;
        if partition.is_leaving && is_ours {
            self.detach(week, "finalize").await?;
        } else if partition.is_usable() {
            if self.is_in_use(week).await? {
                return self.thin(week).await;
            }
            if !self.doom(week).await? {
                return Ok(());
            }
            self.detach(week, "concurrently").await?;
        }
        // It is detached. If a run of that week has started in the interval, it is attached again.
        if self.is_in_use(week).await? {
            return self.make_partitions(BTreeSet::from([week])).await;
        }
        if is_ours { self.drop_partition(week).await } else { Ok(()) }
    }

    /// Marks a partition as one that will be dropped, unless another call is just creating it.
    async fn doom(&self, week: Week) -> Result<bool> {
        let connection = self.connections.get().await?;
        connection.begin("begin").await?;
        schema::lock(&connection).await?;
        let known = partitions(&connection).await?;
        let is_idle = known.iter().any(|known| known.week == week && known.is_usable() && !known.is_unannounced);
        if is_idle {
            let note = format!("{SET_NOTE_LOCK_TIMEOUT}; comment on table {} is '{DOOMED_NOTE}'", week.table());
            connection.define(&note).await?;
        }
        connection.commit().await?;
        Ok(is_idle)
    }

    /// Drops a detached partition, unless another call has attached it again.
    async fn drop_partition(&self, week: Week) -> Result<()> {
        let connection = self.connections.get().await?;
        connection.begin("begin").await?;
        schema::lock(&connection).await?;
        connection.define(SET_LOCK_TIMEOUT).await?;
        let known = partitions(&connection).await?;
        if known.iter().any(|known| known.week == week && !known.is_attached && known.is_doomed) {
            // Waits for transactions that were writing to it when it was detached, then checks again.
            connection.define(&format!("lock table {} in access exclusive mode", week.table())).await?;
            if is_in_use(&connection, week).await? {
                return Ok(());
            }
            connection.define(&format!("drop table {}", week.table())).await?;
        }
        Ok(connection.commit().await?)
    }

    /// Detaches a partition. Writers of the journal do not wait for it.
    async fn detach(&self, week: Week, how: &str) -> Result<()> {
        let connection = self.connections.get_for(DETACH_TIMEOUT).await?;
        Ok(connection.define(&detach(week, how)).await?)
    }

    async fn is_in_use(&self, week: Week) -> Result<bool> {
        is_in_use(&self.connections.get().await?, week).await
    }

    /// Deletes the entries of deleted runs from a partition that outlives most of its runs.
    async fn thin(&self, week: Week) -> Result<()> {
        let (from, until) = week.ids();
        let table = week.table();
        let params = params! { "partition": table, "from": from, "until": until };
        let row = self.connections.query_one(query!("maintain/3_is_thin"), params).await?;
        if !columns::get::<bool>(&row, 0)? {
            return Ok(());
        }
        for _ in 0..THIN_BATCHES_MAX {
            let row = self
                .connections
                .query_one(
                    query!("sweep/2_journal"),
                    params! { "from": from, "until": until, "limit": THIN_BATCH_RUNS },
                )
                .await?;
            if columns::get::<i64>(&row, 0)? < THIN_BATCH_RUNS {
                break;
            }
        }
        Ok(())
    }
}

async fn partitions(connection: &Connection<'_>) -> Result<Vec<Partition>, StatementError> {
    let tables = connection.query(query!("maintain/1_partitions"), &[]).await?;
    let partition = |row: &Row| {
        Some(Partition {
            week: Week::from_table(row.get(0))?,
            is_attached: row.get(1),
            is_leaving: row.get(2),
            is_doomed: row.get::<_, Option<&str>>(3) == Some(DOOMED_NOTE),
            is_unannounced: row.get::<_, Option<&str>>(3) == Some(UNANNOUNCED_NOTE),
        })
    };
    Ok(tables.iter().filter_map(partition).collect())
}

async fn is_in_use(connection: &Connection<'_>, week: Week) -> Result<bool> {
    let (from, until) = week.ids();
    let found = connection.query(query!("maintain/2_in_use"), params! { "from": from, "until": until }).await?;
    columns::get(&found[0], 0)
}

fn detach(week: Week, how: &str) -> String {
    format!("alter table journal detach partition {} {how}", week.table())
}

/// Attaches a table. It usually has no rows that PostgreSQL would have to check.
async fn attach(connection: &Connection<'_>, week: Week, note: &str) -> Result<(), StatementError> {
    let (from, until) = week.ids();
    let until = if until.is_max() { "maxvalue".to_owned() } else { format!("'{until}'") };
    let table = week.table();
    let statement = format!(
        "alter table journal attach partition {table} for values from ('{from}') to ({until}); \
         comment on table {table} is {note}"
    );
    connection.define(&statement).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(time: &str) -> RunId {
        RunId::new(time.parse().unwrap(), u128::MAX)
    }

    #[test]
    fn a_week_begins_on_monday() {
        let week = Week::of_run(run("2026-11-09T00:00:00Z"));
        assert_eq!(week.table(), "journal_2026_11_09");
        assert_eq!(Week::of_run(run("2026-11-15T23:59:59.999Z")), week);
        assert_eq!(Week::of_run(run("2026-11-16T00:00:00Z")), Week(week.0 + 1));
    }

    #[test]
    fn the_ids_of_a_week_are_between_its_bounds() {
        for time in ["1970-01-01T00:00:00Z", "1970-01-05T00:00:00Z", "2026-11-15T12:00:00Z", "9000-01-01T00:00:00Z"] {
            let run = run(time);
            let (from, until) = Week::of_run(run).ids();
            assert!(from <= run.uuid() && run.uuid() < until, "{time}: {from} {until}");
            assert_eq!(Week(Week::of_run(run).0 + 1).ids().0, until);
        }
    }

    #[test]
    fn every_id_has_a_week_with_a_name() {
        for bits in [0, 1, 1 << 127, u128::MAX, u128::MAX >> 1, 0x0199_0000_0000_7000 << 64] {
            let week = Week::of_run(RunId::from_uuid(Uuid::from_u128(bits)));
            let (from, until) = week.ids();
            assert!(from.as_u128() <= bits && (until.is_max() || bits < until.as_u128()), "{bits:x}");
            assert_eq!(Week::from_table(&week.table()), Some(week), "{}", week.table());
        }
    }

    #[test]
    fn other_tables_are_not_weeks() {
        for name in ["journal", "journal_", "journal_old", "journal_2026_11_10", "journal_week_", "journal_week_2900"] {
            assert_eq!(Week::from_table(name), None, "{name}");
        }
    }
}
