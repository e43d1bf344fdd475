//! The journal's partitions: created ahead or when they are missing, dropped with their last run.

use std::time::{Duration, Instant};

use everstep_core::ids::RunId;
use everstep_core::time::Timestamp;
use everstep_store::postgres::{Options, PostgresStore};
use everstep_store::{Item, NewFork, NewRun, RunStore};
use everstep_testkit::contract::{fixtures::*, run};
use everstep_testkit::postgres::{Cluster, TestDatabase};
use tokio::task::JoinSet;

use super::{open, session};

const DAY: i64 = 86_400;
/// Longer than every wait that ends.
const LOCK_WAIT_TIMEOUT: Duration = Duration::from_secs(30);

fn partitions(database: &TestDatabase<'_>) -> Vec<String> {
    database.sql("select inhrelid::regclass from pg_inherits where inhparent = 'journal'::regclass order by 1")
}

/// The partition of a time, named after the Monday of its week.
fn partition(database: &TestDatabase<'_>, time: Timestamp) -> String {
    let micros = time.micros();
    let monday = format!("date_trunc('week', to_timestamp({micros} / 1e6) at time zone 'utc')");
    database.sql(&format!("select to_char({monday}, '\"journal\"_YYYY_MM_DD')")).remove(0)
}

/// A run whose id was created at a time.
fn run_of(time: Timestamp, number: u128) -> RunId {
    RunId::new(time, number)
}

/// Starts a run at a time, which ends at once, and is swept a day later.
async fn short_run(store: &PostgresStore, time: Timestamp, number: u128) -> RunId {
    let node = member(store).await;
    let run = run_of(time, number);
    apply(store, node, &start_with(run, Some(node), NewRun { retention_days: 1, ..new() })).await;
    apply(store, node, &end(run, 2, time)).await;
    run
}

#[test]
fn five_weeks_are_made_when_the_database_is_opened() {
    run(async {
        let database = Cluster::shared().database();
        let _store = open(&database).await;
        let weeks = database.sql(
            "select to_char(date_trunc('week', now() at time zone 'utc') + n * interval '7 days', '\"journal\"_YYYY_MM_DD')
             from generate_series(0, 4) as n",
        );
        assert_eq!(partitions(&database), weeks);
        let storage = "select distinct attstorage from pg_attribute join pg_inherits on attrelid = inhrelid
            where inhparent = 'journal'::regclass and attname = 'payload'";
        assert_eq!(database.sql(storage), ["e"], "long payloads are not compressed twice");
    });
}

#[test]
fn maintenance_makes_the_weeks_to_come() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let later = at(40 * 365 * DAY);
        store.maintain(later).await.unwrap();
        for weeks in 0..=4 {
            let week = partition(&database, Timestamp::from_micros(later.micros() + weeks * 7 * DAY * 1_000_000));
            assert!(partitions(&database).contains(&week), "{week}");
        }
    });
}

#[test]
fn a_run_of_any_time_finds_its_partition() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let node = member(&store).await;
        let latest = Timestamp::from_millis((1 << 48) - 1);
        let times = [Timestamp::EPOCH, at(0), at(30 * 365 * DAY), latest];
        let runs: Vec<_> = (1..).zip(times).map(|(number, time)| run_of(time, number)).collect();
        // All in one batch: its partitions are created, and it is sent again.
        let starts: Vec<_> = runs.iter().map(|run| start(*run, Some(node))).collect();
        assert_eq!(store.commit(node, &starts).await.unwrap(), vec![applied(); 4]);
        for run in runs {
            apply(&store, node, &step(run, 2)).await;
            assert_eq!(seqs(&store, run).await, [1, 2, 3]);
        }
    });
}

#[test]
fn a_missing_partition_is_made_by_one_and_used_by_all() {
    run(async {
        let database = Cluster::shared().database();
        let store = std::sync::Arc::new(open(&database).await);
        let node = member(&*store).await;
        let mut commits = JoinSet::new();
        for number in 0..8 {
            let store = store.clone();
            let run = run_of(at(-500 * DAY), number);
            commits.spawn(async move { (run, commit(&*store, node, &start(run, Some(node))).await) });
        }
        for (run, outcome) in commits.join_all().await {
            assert_eq!(outcome, applied());
            assert_eq!(seqs(&*store, run).await, [1]);
        }
    });
}

const UNTOLD: &str = "select count(*) from pg_description where description like 'everstep: attached, but%'";

/// A connection that reads the list of partitions while one is attached may miss it for long.
#[test]
fn a_missing_partition_is_announced_while_no_connection_reads_the_list() {
    run(async {
        let database = Cluster::shared().database();
        let store = std::sync::Arc::new(open(&database).await);
        let node = member(&*store).await;
        let reader = session(&database).await;
        reader.batch_execute("begin; select count(*) from journal").await.unwrap();
        let run = run_of(at(-500 * DAY), 1);
        let starting = tokio::spawn({
            let store = store.clone();
            async move { commit(&*store, node, &start(run, Some(node))).await }
        });
        let watcher = session(&database).await;
        tokio::time::timeout(LOCK_WAIT_TIMEOUT, super::wait_for_a_waiter(&watcher)).await.unwrap();
        assert_eq!(database.sql(UNTOLD), ["1"]);
        assert!(!starting.is_finished());
        reader.batch_execute("commit").await.unwrap();
        assert_eq!(starting.await.unwrap(), applied());
        assert_eq!(database.sql(UNTOLD), ["0"]);
        assert_eq!(seqs(&*store, run).await, [1]);
    });
}

#[test]
fn a_long_read_delays_a_missing_partition_for_a_bounded_time() {
    run(async {
        let database = Cluster::shared().database();
        let options = Options { call_timeout: Duration::from_secs(1), ..Options::default() };
        let store = PostgresStore::open(&database.url(), &options).await.unwrap();
        let node = member(&store).await;
        let backup = session(&database).await;
        backup.batch_execute("begin; select count(*) from journal").await.unwrap();
        let run = run_of(at(-500 * DAY), 1);
        let began = Instant::now();
        apply(&store, node, &start(run, Some(node))).await;
        assert!(
            began.elapsed() >= options.call_timeout,
            "all readers of the list have finished when the partition was attached"
        );
        assert_eq!(database.sql(UNTOLD), ["0"]);
        assert_eq!(seqs(&store, run).await, [1]);
        backup.batch_execute("commit").await.unwrap();
    });
}

#[test]
fn maintenance_announces_unannounced_partitions() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let node = member(&store).await;
        let clock = store.join(new_node(), LEASE, None).await.unwrap();
        // An old week with a run, one without runs, and this one.
        apply(&store, node, &start(run_of(at(-500 * DAY), 1), Some(node))).await;
        let weeks = [at(-500 * DAY), at(-400 * DAY), clock].map(|time| partition(&database, time));
        short_run(&store, at(-400 * DAY), 2).await;
        assert_eq!(store.sweep(at(0), 10).await.unwrap(), 1);
        let note = "everstep: attached, but not every connection may know it yet";
        for week in &weeks {
            database.sql(&format!("comment on table {week} is '{note}'"));
        }
        assert_eq!(database.sql(UNTOLD), ["3"]);
        store.maintain(clock).await.unwrap();
        assert_eq!(database.sql(UNTOLD), ["0"]);
        let left = partitions(&database);
        assert_eq!(weeks.map(|week| left.contains(&week)), [true, false, true]);
    });
}

#[test]
fn creating_a_partition_ahead_waits_for_no_transaction() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let last = partitions(&database).pop().unwrap();
        database.sql(&format!("drop table {last}"));
        let reader = session(&database).await;
        reader.batch_execute("begin; select count(*) from journal").await.unwrap();
        let clock = store.join(new_node(), LEASE, None).await.unwrap();
        let began = Instant::now();
        store.maintain(clock).await.unwrap();
        assert!(began.elapsed() < Options::default().call_timeout);
        assert!(partitions(&database).contains(&last));
        reader.batch_execute("commit").await.unwrap();
    });
}

#[test]
fn a_fork_that_needs_a_partition_needs_one_connection() {
    run(async {
        let database = Cluster::shared().database();
        let options = Options { connections: 2, ..Options::default() };
        let store = PostgresStore::open(&database.url(), &options).await.unwrap();
        let node = member(&store).await;
        let source = run_of(at(0), 1);
        apply(&store, node, &start(source, Some(node))).await;
        let fork = run_of(at(-500 * DAY), 2);
        assert_eq!(store.fork_run(HERE, source, NewFork::new(fork, 1, at(0))).await.unwrap(), Some(1));
        assert_eq!(seqs(&store, fork).await, [1]);
    });
}

#[test]
fn a_week_is_dropped_with_its_last_run() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let (long_ago, now) = (at(-100 * DAY), at(0));
        let gone = short_run(&store, long_ago, 1).await;
        let kept = short_run(&store, at(-50 * DAY), 2).await;
        let (old, other) = (partition(&database, long_ago), partition(&database, at(-50 * DAY)));
        store.maintain(now).await.unwrap();
        assert!(partitions(&database).contains(&old), "it has a run");

        assert_eq!(store.sweep(at(-60 * DAY), 10).await.unwrap(), 1);
        store.maintain(now).await.unwrap();
        assert!(!partitions(&database).contains(&old), "{:?}", partitions(&database));
        assert_eq!(database.sql(&format!("select to_regclass('{old}') is null")), ["t"]);
        assert!(partitions(&database).contains(&other));
        assert_eq!(seqs(&store, gone).await, [0; 0]);
        assert_eq!(seqs(&store, kept).await, [1, 2]);
        // A run with such an old id finds a partition as well.
        short_run(&store, long_ago, 3).await;
        assert!(partitions(&database).contains(&old));
    });
}

#[test]
fn weeks_of_late_are_kept_without_runs() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let before = partitions(&database);
        let clock = store.join(new_node(), LEASE, None).await.unwrap();
        store.maintain(clock).await.unwrap();
        assert_eq!(partitions(&database), before);
    });
}

#[test]
fn a_week_that_outlives_most_of_its_runs_is_thinned_out() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let long_ago = at(-100 * DAY);
        for number in 0..40 {
            short_run(&store, long_ago, number).await;
        }
        let node = member(&store).await;
        let survivor = run_of(long_ago, 99);
        apply(&store, node, &start(survivor, Some(node))).await;
        let week = partition(&database, long_ago);
        database.sql(&format!("analyze {week}"));

        // A partition with half of its runs is not thinned out yet.
        assert_eq!(store.sweep(at(-90 * DAY), 20).await.unwrap(), 20);
        store.maintain(at(0)).await.unwrap();
        let stored = format!("select count(distinct run_id) from {week}");
        assert_eq!(database.sql(&stored), ["41"]);
        assert_eq!(store.sweep(at(-90 * DAY), 20).await.unwrap(), 20);
        store.maintain(at(0)).await.unwrap();
        assert_eq!(database.sql(&stored), ["1"]);
        assert_eq!(seqs(&store, survivor).await, [1]);
        apply(&store, node, &step(survivor, 2)).await;
    });
}

/// Begins to detach a partition, while another transaction reads for so long that the detaching is aborted.
async fn detach_by_half(database: &TestDatabase<'_>, week: &str) {
    let reader = session(database).await;
    reader.batch_execute("begin; select count(*) from journal").await.unwrap();
    let detacher = session(database).await;
    detacher.batch_execute("set statement_timeout = '300ms'").await.unwrap();
    let detach = format!("alter table journal detach partition {week} concurrently");
    detacher.batch_execute(&detach).await.unwrap_err();
    assert_eq!(database.sql(PENDING), ["1"]);
    reader.batch_execute("rollback").await.unwrap();
}

const PENDING: &str = "select count(*) from pg_inherits where inhdetachpending";

#[test]
fn a_week_that_was_left_half_detached_is_finished() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let long_ago = at(-100 * DAY);
        short_run(&store, long_ago, 1).await;
        let week = partition(&database, long_ago);
        assert_eq!(store.sweep(at(0), 10).await.unwrap(), 1);
        detach_by_half(&database, &week).await;
        // A partition that another client detaches is not touched.
        store.maintain(at(0)).await.unwrap();
        assert_eq!(database.sql(PENDING), ["1"]);
        let note = "everstep: its runs are gone, and it is about to be dropped";
        database.sql(&format!("comment on table {week} is '{note}'"));
        store.maintain(at(0)).await.unwrap();
        assert_eq!(database.sql(PENDING), ["0"]);
        assert_eq!(database.sql(&format!("select to_regclass('{week}') is null")), ["t"]);
    });
}

#[test]
fn a_half_detached_week_is_attached_again_when_it_is_needed() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let long_ago = at(-100 * DAY);
        let before = short_run(&store, long_ago, 1).await;
        let week = partition(&database, long_ago);
        detach_by_half(&database, &week).await;
        short_run(&store, long_ago, 2).await;
        assert_eq!(database.sql(PENDING), ["0"]);
        assert_eq!(seqs(&store, before).await, [1, 2]);
    });
}

#[test]
fn a_week_that_an_administrator_detached_is_left_alone() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let long_ago = at(-100 * DAY);
        short_run(&store, long_ago, 1).await;
        assert_eq!(store.sweep(at(0), 10).await.unwrap(), 1);
        let week = partition(&database, long_ago);
        database.sql(&format!("alter table journal detach partition {week}"));
        store.maintain(at(0)).await.unwrap();
        assert_eq!(database.sql(&format!("select count(*) from {week}")), ["2"]);
    });
}

#[test]
fn a_week_that_was_detached_to_be_dropped_is_dropped_later() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let long_ago = at(-100 * DAY);
        short_run(&store, long_ago, 1).await;
        assert_eq!(store.sweep(at(0), 10).await.unwrap(), 1);
        let week = partition(&database, long_ago);
        let keeper = session(&database).await;
        // Another transaction reads it at that moment.
        keeper.batch_execute(&format!("begin; select count(*) from {week}")).await.unwrap();
        let maintaining = {
            let store = std::sync::Arc::new(store);
            let maintaining = store.clone();
            let task = tokio::spawn(async move { maintaining.maintain(at(0)).await });
            (store, task)
        };
        super::wait_for_a_waiter(&session(&database).await).await;
        maintaining.1.abort();
        let _ = maintaining.1.await;
        keeper.batch_execute("rollback").await.unwrap();
        // The statement of the aborted call may still be running in the server.
        while database.sql(&format!("select to_regclass('{week}') is null")) == ["f"] {
            maintaining.0.maintain(at(0)).await.unwrap();
        }
    });
}

#[test]
fn a_detached_week_that_has_a_run_is_attached_again() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let long_ago = at(-100 * DAY);
        let run = short_run(&store, long_ago, 1).await;
        let week = partition(&database, long_ago);
        database.sql(&format!("alter table journal detach partition {week}"));
        assert_eq!(seqs(&store, run).await, [0; 0]);
        store.maintain(at(0)).await.unwrap();
        assert_eq!(seqs(&store, run).await, [1, 2]);
        // A commit that needs the partition attaches it again.
        database.sql(&format!("alter table journal detach partition {week}"));
        let other = run_of(long_ago, 2);
        let node = member(&store).await;
        let item =
            Item { entries: vec![entry(1, everstep_core::journal::Kind::RunStarted, None)], ..start(other, None) };
        apply(&store, node, &item).await;
        assert_eq!(seqs(&store, run).await, [1, 2]);
    });
}
