//! A server that hangs, stops and starts again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everstep_store::postgres::{Options, PostgresStore};
use everstep_store::{CommitOutcome, Error, Item, RunStore};
use everstep_testkit::contract::{fixtures::*, run};
use everstep_testkit::postgres::{Cluster, Durability};
use tokio::sync::watch;

use super::{open, patiently, session};

#[test]
fn a_call_that_takes_too_long_is_given_up_and_broken_off() {
    run(async {
        let database = Cluster::shared().database();
        for pooled in [false, true] {
            let options = Options { call_timeout: Duration::from_millis(400), pooled, ..Options::default() };
            let store = PostgresStore::open(&database.url(), &options).await.unwrap();
            let node = member(&store).await;
            let run = owned_run(&store, node).await;
            let other = session(&database).await;
            other.batch_execute("begin; lock table journal in access exclusive mode").await.unwrap();
            let began = Instant::now();
            let error = store.commit(node, &[step(run, 2)]).await.unwrap_err();
            assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
            assert!(began.elapsed() < Duration::from_secs(5));
            // The server was notified that no client waits for it.
            let waiting = "select count(*) from pg_stat_activity
                where wait_event_type = 'Lock' and datname = current_database()";
            while other.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) > 0 {
                tokio::task::yield_now().await;
            }
            other.batch_execute("rollback").await.unwrap();
            assert_eq!(seqs(&store, run).await, [1]);
            apply(&store, node, &step(run, 2)).await;
        }
    });
}

#[test]
fn a_caller_that_goes_away_leaves_no_transaction_behind() {
    run(async {
        let database = Cluster::shared().database();
        let options = Options { connections: 2, ..Options::default() };
        let store = Arc::new(PostgresStore::open(&database.url(), &options).await.unwrap());
        let node = member(&*store).await;
        let run = owned_run(&*store, node).await;
        for turn in 0..200_u32 {
            let load = {
                let store = store.clone();
                async move { store.load_run(run).await }
            };
            let _ = tokio::time::timeout(Duration::from_micros(u64::from(turn) * 10), load).await;
        }
        // Transactions that the aborted reads have left open would show here.
        apply(&*store, node, &step(run, 2)).await;
        for _ in 0..4 {
            assert_eq!(load(&*store, run).await.entries.len(), 3);
            apply(&*store, node, &Item { inbox_inputs: vec![], ..park(owned_run(&*store, node).await, at(9)) }).await;
        }
        let open = "select count(*) from pg_stat_activity where state like 'idle in%' and datname = current_database()";
        assert_eq!(database.sql(open), ["0"]);
    });
}

#[test]
fn a_server_that_crashes_loses_nothing_and_is_found_again() {
    run(async {
        let cluster = Cluster::start(Durability::Synced);
        let database = cluster.database();
        let store = Arc::new(open(&database).await);
        let node = member(&*store).await;
        let run = owned_run(&*store, node).await;
        let (progress, mut seen) = watch::channel(0);
        let writer = {
            let store = store.clone();
            tokio::spawn(async move {
                let mut unknown = 0;
                for seq in (2..200).step_by(2) {
                    progress.send(seq).unwrap();
                    let item = step(run, seq);
                    loop {
                        match store.commit(node, std::slice::from_ref(&item)).await {
                            Ok(outcomes) => {
                                assert!(
                                    matches!(outcomes[0], CommitOutcome::Applied(_) | CommitOutcome::Duplicate),
                                    "{outcomes:?}"
                                );
                                break;
                            }
                            // The same item again: its commit id distinguishes it from another one.
                            Err(error) if error.is_transient() => unknown += 1,
                            Err(error) => panic!("{error}"),
                        }
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
                unknown
            })
        };
        seen.wait_for(|seq| *seq > 50).await.unwrap();
        cluster.restart_immediately();
        let before = patiently(async || store.journal(run, 0, usize::MAX).await).await.len();
        assert!(before >= 50, "the committed data exists");
        seen.wait_for(|seq| *seq > 100).await.unwrap();
        cluster.kill();
        cluster.start_again();
        assert!(writer.await.unwrap() > 0);
        let stored = patiently(async || store.journal(run, 0, usize::MAX).await).await;
        assert_eq!(stored.iter().map(|entry| entry.seq).collect::<Vec<_>>(), (1..=199).collect::<Vec<_>>());
    });
}

#[test]
fn a_stopped_server_is_unavailable_until_it_is_back() {
    run(async {
        let cluster = Cluster::start(Durability::Fast);
        let database = cluster.database();
        let store = open(&database).await;
        let node = member(&store).await;
        cluster.stop();
        for _ in 0..3 {
            let error = store.nodes().await.unwrap_err();
            assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
        }
        cluster.start_again();
        assert_eq!(patiently(async || store.nodes().await).await[0].id, node);
    });
}
