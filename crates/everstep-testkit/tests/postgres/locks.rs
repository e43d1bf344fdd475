//! Locks: which transactions wait for each other, and the result.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::RunId;
use everstep_core::journal::Kind;
use everstep_core::status::Status;
use everstep_store::{CommitOutcome, Error, Gate, Item, NewRun, RunStore, TickRequest, WaitChange};
use everstep_testkit::contract::{fixtures::*, run};
use everstep_testkit::postgres::Cluster;

use super::{open, session, wait_for_a_waiter};

#[test]
fn a_fence_steps_back_from_what_is_in_flight() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let node = new_node();
        store.join(node, Duration::ZERO, None).await.unwrap();
        let seen = lease_of(&store, node).await;
        // Like a commit.
        let commit = session(&database).await;
        commit.batch_execute("begin").await.unwrap();
        commit.query("select from nodes where id = $1 for key share", &[&node.uuid()]).await.unwrap();
        assert!(!store.fence(node, seen).await.unwrap());
        commit.batch_execute("commit").await.unwrap();
        assert!(store.fence(node, seen).await.unwrap());
    });
}

#[test]
fn a_renewal_does_not_wait_for_a_commit_nor_a_commit_for_a_renewal() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let node = member(&store).await;
        let run = owned_run(&store, node).await;
        let other = session(&database).await;
        other.batch_execute("begin").await.unwrap();
        other.query("select from nodes where id = $1 for key share", &[&node.uuid()]).await.unwrap();
        store.tick(node, LEASE, at(0), &TickRequest::default()).await.unwrap();
        other.batch_execute("rollback; begin").await.unwrap();
        other.execute("update nodes set lease_until = lease_until + 1 where id = $1", &[&node.uuid()]).await.unwrap();
        apply(&store, node, &step(run, 2)).await;
        other.batch_execute("rollback").await.unwrap();
    });
}

#[test]
fn a_commit_that_meets_a_fence_waits_and_writes_nothing() {
    run(async {
        let database = Cluster::shared().database();
        let store = Arc::new(open(&database).await);
        let node = member(&*store).await;
        let run = owned_run(&*store, node).await;
        let fence = session(&database).await;
        fence.batch_execute("begin").await.unwrap();
        fence.query("select from nodes where id = $1 for update", &[&node.uuid()]).await.unwrap();
        fence.execute("update nodes set fenced = true where id = $1", &[&node.uuid()]).await.unwrap();
        let in_flight = {
            let store = store.clone();
            tokio::spawn(async move { store.commit(node, &[step(run, 2), start(new_run(), Some(node))]).await })
        };
        wait_for_a_waiter(&session(&database).await).await;
        fence.batch_execute("commit").await.unwrap();
        let refused = in_flight.await.unwrap();
        assert!(matches!(refused, Err(Error::Fenced(fenced)) if fenced == node), "{refused:?}");
        assert_eq!(seqs(&*store, run).await, [1]);
        assert_eq!(database.sql("select count(*) from runs"), ["1"]);
    });
}

#[test]
fn a_node_that_leaves_waits_for_what_is_in_flight() {
    run(async {
        let database = Cluster::shared().database();
        let store = Arc::new(open(&database).await);
        let node = member(&*store).await;
        let run = owned_run(&*store, node).await;
        // A commit of the node that has not ended.
        let commit = session(&database).await;
        commit.batch_execute("begin").await.unwrap();
        commit.query("select from nodes where id = $1 for key share", &[&node.uuid()]).await.unwrap();
        let leaving = {
            let store = store.clone();
            tokio::spawn(async move { store.leave(node, at(5)).await })
        };
        wait_for_a_waiter(&session(&database).await).await;
        assert_eq!(row(&*store, run).await.owner, Some(node));
        commit.batch_execute("commit").await.unwrap();
        leaving.await.unwrap().unwrap();
        assert_eq!(row(&*store, run).await.owner, None);
    });
}

/// The statement saw the row before another transaction changed it; all its parts must use the row as it is now.
#[test]
fn an_item_that_waited_for_its_run_is_written_whole() {
    run(async {
        let database = Cluster::shared().database();
        let store = Arc::new(open(&database).await);
        let node = member(&*store).await;
        let run = unowned_run(&*store, node).await;
        let sent =
            apply(&*store, node, &Item { inbox_inputs: vec![inbox_input(run, "go")], ..start(new_run(), None) }).await;
        let other = session(&database).await;
        other.batch_execute("begin").await.unwrap();
        // It stays unowned: the waiting transactions may continue.
        other.execute("update runs set wake_at = wake_at + 1 where id = $1", &[&run.uuid()]).await.unwrap();
        let decision = Item {
            entries: vec![
                entry(2, Kind::StepDispatched, Some("first")),
                entry(3, Kind::StepDispatched, Some("second")),
            ],
            projection: Some(projection(Status::Running, Some(node), at(9))),
            waits: vec![WaitChange::Open(wait("first", "paid"))],
            taken: sent,
            ..item(run, Gate::Unowned)
        };
        let deciding = {
            let store = store.clone();
            tokio::spawn(async move { commit(&*store, node, &decision).await })
        };
        wait_for_a_waiter(&session(&database).await).await;
        other.batch_execute("commit").await.unwrap();
        assert_eq!(deciding.await.unwrap(), applied());
        let loaded = load(&*store, run).await;
        assert_eq!((loaded.run.owner, loaded.run.wake_at), (Some(node), at(9)));
        assert_eq!((loaded.entries.len(), loaded.inbox.len()), (3, 0));
        assert_eq!(Tables::Postgres(database.url()).waits_for(HERE, "paid", 10).await.len(), 1);
    });
}

#[test]
fn an_item_that_waited_for_a_run_that_was_claimed_is_lost_whole() {
    run(async {
        let database = Cluster::shared().database();
        let store = Arc::new(open(&database).await);
        let (node, claimer) = (member(&*store).await, member(&*store).await);
        let runs = [unowned_run(&*store, node).await, unowned_run(&*store, node).await];
        let claim = session(&database).await;
        claim.batch_execute("begin").await.unwrap();
        let ids = runs.map(RunId::uuid).to_vec();
        claim.execute("update runs set owner = $1 where id = any($2)", &[&claimer.uuid(), &ids]).await.unwrap();
        // One with entries, one that only changes its run's row.
        let items = [
            Item {
                entries: vec![entry(2, Kind::StepDispatched, Some("first"))],
                projection: Some(projection(Status::Running, Some(node), at(9))),
                ..item(runs[0], Gate::Unowned)
            },
            Item { projection: Some(projection(Status::Paused, None, at(9))), ..item(runs[1], Gate::Unowned) },
        ];
        let deciding = {
            let store = store.clone();
            tokio::spawn(async move { store.commit(node, &items).await.unwrap() })
        };
        wait_for_a_waiter(&session(&database).await).await;
        claim.batch_execute("commit").await.unwrap();
        assert_eq!(deciding.await.unwrap(), [CommitOutcome::Lost, CommitOutcome::Lost]);
        for run in runs {
            let loaded = load(&*store, run).await;
            assert_eq!((loaded.run.owner, loaded.entries.len()), (Some(claimer), 1));
        }
    });
}

#[test]
fn an_input_that_another_node_has_answered_makes_the_item_a_conflict() {
    run(async {
        let database = Cluster::shared().database();
        let store = Arc::new(open(&database).await);
        let node = member(&*store).await;
        let run = owned_run(&*store, node).await;
        let sent =
            apply(&*store, node, &Item { inbox_inputs: vec![inbox_input(run, "go")], ..start(new_run(), None) }).await;
        let other = session(&database).await;
        other.batch_execute("begin").await.unwrap();
        other.execute("delete from inbox where id = $1", &[&sent[0].0]).await.unwrap();
        let answering = {
            let store = store.clone();
            let items = [Item { taken: sent, ..step(run, 2) }, start(new_run(), Some(node))];
            tokio::spawn(async move { store.commit(node, &items).await.unwrap() })
        };
        wait_for_a_waiter(&session(&database).await).await;
        other.batch_execute("commit").await.unwrap();
        assert_eq!(answering.await.unwrap(), [CommitOutcome::Conflict, applied()]);
        assert_eq!(seqs(&*store, run).await, [1]);
    });
}

#[test]
fn a_start_waits_for_another_with_its_key() {
    run(async {
        let database = Cluster::shared().database();
        let store = Arc::new(open(&database).await);
        let node = member(&*store).await;
        let keyed = || NewRun { key: Some(("orders".to_owned(), "7".to_owned())), ..new() };
        let first = new_run();
        apply(&*store, node, &start_with(first, None, keyed())).await;
        let other = session(&database).await;
        for (end, expected) in [("rollback", CommitOutcome::Exists(first)), ("commit", applied())] {
            other.batch_execute("begin").await.unwrap();
            other.execute("delete from runs where id = $1", &[&first.uuid()]).await.unwrap();
            let starting = {
                let store = store.clone();
                let start = start_with(new_run(), None, keyed());
                tokio::spawn(async move { commit(&*store, node, &start).await })
            };
            wait_for_a_waiter(&session(&database).await).await;
            other.batch_execute(end).await.unwrap();
            assert_eq!(starting.await.unwrap(), expected, "after a {end}");
        }
    });
}

#[test]
fn claims_and_releases_step_over_what_is_locked() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let (node, gone) = (member(&store).await, member(&store).await);
        let (busy, free) = (unowned_run(&store, node).await, unowned_run(&store, node).await);
        let (busy_orphan, free_orphan) = (owned_run(&store, gone).await, owned_run(&store, gone).await);
        fence(&store, gone).await;
        let other = session(&database).await;
        other.batch_execute("begin").await.unwrap();
        let locked = vec![busy.uuid(), busy_orphan.uuid()];
        other.query("select from runs where id = any($1) for update", &[&locked]).await.unwrap();
        let request = TickRequest { lanes: vec![(String::new(), 10)], rotation: None, release: 10, inbox: 10 };
        let tick = store.tick(node, LEASE, at(0), &request).await.unwrap();
        assert_eq!((tick.claimed, tick.released), (vec![free], 1));
        assert_eq!(claim(&store, node, "", at(0), 10).await, [free_orphan]);
        assert_eq!(release_runs(&store, at(0), 10).await, 0);
        other.batch_execute("rollback").await.unwrap();
        assert_eq!(release_runs(&store, at(0), 10).await, 1);
        let mut claimed = claim(&store, node, "", at(0), 10).await;
        claimed.sort();
        assert_eq!(claimed, [busy, busy_orphan]);
    });
}

#[test]
fn a_sweep_leaves_a_run_alone_that_is_being_retried() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let node = member(&store).await;
        let run = owned_run(&store, node).await;
        apply(&store, node, &end(run, 2, at(0))).await;
        let other = session(&database).await;
        other.batch_execute("begin").await.unwrap();
        let retried = "update runs set status = 'running', ended_at = null where id = $1";
        other.execute(retried, &[&run.uuid()]).await.unwrap();
        assert_eq!(store.sweep(at(1_000 * 86_400), 10).await.unwrap(), 0);
        other.batch_execute("commit").await.unwrap();
        assert_eq!(store.sweep(at(1_000 * 86_400), 10).await.unwrap(), 0);
        assert_eq!(seqs(&store, run).await, [1, 2]);
    });
}
