//! The additional promises of SQLite: a data folder, a lock, a full disk.

use std::path::Path;

use everstep_core::ids::{NodeId, RunId};
use everstep_core::journal::Kind;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::sqlite::{Database, Options, SqliteStore};
use everstep_store::{CommitOutcome, Error, Gate, Item, NewFork, NewRun, RunStore};
use everstep_testkit::contract::{fixtures::*, run};
use serde_json::json;

fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder, &Options::default()).unwrap()
}

#[test]
fn a_full_disk_refuses_the_batch_until_there_is_room() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let node = member(&store).await;
        let going_on = owned_run(&store, node).await;
        let pages = store.pages().await.unwrap();
        store.set_max_pages(pages + 1).await.unwrap();

        let big = NewRun { input: Payload::from(json!("x".repeat(100_000))), ..new() };
        let started = new_run();
        let batch = [step(going_on, 2), start_with(started, Some(node), big)];
        for _ in 0..2 {
            let error = store.commit(node, &batch).await.unwrap_err();
            assert!(matches!(error, Error::Full(_)), "{error:?}");
            assert!(error.is_transient());
        }
        assert_eq!(seqs(&store, going_on).await, [1]);
        assert_eq!(store.load_run(started).await.unwrap(), None);

        store.set_max_pages(u32::MAX - 1).await.unwrap();
        assert_eq!(store.commit(node, &batch).await.unwrap(), [applied(), applied()]);
        assert_eq!(seqs(&store, going_on).await, [1, 2, 3]);
        assert_eq!(seqs(&store, started).await, [1]);
    });
}

#[test]
fn on_a_full_disk_retention_frees_space_for_new_work() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let node = member(&store).await;
        // Noise, which compression does not shorten.
        let noise: String = (0..40_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        let big = || NewRun { input: Payload::from(json!(noise)), retention_days: 1, ..new() };
        for _ in 0..60 {
            let run = new_run();
            apply(&store, node, &start_with(run, Some(node), big())).await;
            apply(&store, node, &end(run, 2, at(1))).await;
        }
        let pages = store.pages().await.unwrap();
        store.set_max_pages(pages).await.unwrap();
        let started = start_with(new_run(), Some(node), big());
        assert!(matches!(store.commit(node, std::slice::from_ref(&started)).await, Err(Error::Full(_))));
        let later = at(2 * 86_400);
        let mut swept = 0;
        loop {
            match store.sweep(later, 1_000).await.unwrap() {
                0 => break,
                runs => swept += runs,
            }
        }
        assert_eq!(swept, 60);
        store.maintain(later).await.unwrap();
        assert_eq!(store.space().refusal, None, "the file is smaller by more than 12 MiB");
        assert!(store.pages().await.unwrap() < pages / 2);
        apply(&store, node, &started).await;
    });
}

#[test]
fn a_folder_in_use_is_refused_with_the_process_that_uses_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/data");
    let store = open(&path);
    let Err(Error::Locked(message)) = SqliteStore::open(&path, &Options::default()) else {
        panic!("a folder was opened twice");
    };
    let expected = format!(
        "data folder {} is in use by process {}; stop that process, or choose another folder with --data",
        path.display(),
        std::process::id()
    );
    assert_eq!(message, expected);
    drop(store);
    open(&path);
}

#[test]
fn a_folder_is_unlocked_by_the_death_of_its_process() {
    // The lock belongs to the process; the content of the file of a dead one blocks no other process.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    open(&path);
    std::fs::write(path.join("lock"), "99999999999\n").unwrap();
    open(&path);
    let pid = std::fs::read_to_string(path.join("lock")).unwrap();
    assert_eq!(pid.trim(), std::process::id().to_string());
}

#[test]
fn what_was_committed_survives_and_is_released_when_the_folder_is_opened_again() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let node = member(&store).await;
        let (owned, parked, ended) =
            (owned_run(&store, node).await, owned_run(&store, node).await, owned_run(&store, node).await);
        apply(&store, node, &step(owned, 2)).await;
        apply(&store, node, &park(parked, at(60))).await;
        apply(&store, node, &end(ended, 2, at(1))).await;
        let before = load(&store, owned).await;
        drop(store);

        let store = open(folder.path());
        let after = load(&store, owned).await;
        assert_eq!(after.entries, before.entries);
        assert_eq!(after.run.owner, None);
        assert_eq!(row(&store, parked).await.wake_at, at(60));
        assert_eq!(row(&store, ended).await.status, Status::Completed);
        assert!(store.nodes().await.unwrap().iter().all(|node| node.fenced));
        assert!(matches!(store.commit(node, &[step(owned, 4)]).await, Err(Error::Fenced(_))));

        let next = member(&store).await;
        let claimed = claim(&store, next, "", after.run.wake_at, 10).await;
        assert!(claimed.contains(&owned));
        apply(&store, next, &step(owned, 4)).await;
    });
}

#[test]
fn a_closed_folder_holds_one_tidy_file() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["everstep.db", "lock", "reserve"]);
}

#[test]
fn the_file_shrinks_when_runs_are_swept() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let node = member(&store).await;
        let before = store.pages().await.unwrap();
        let big = NewRun { input: Payload::from(json!("x".repeat(500_000))), ..new() };
        let run = new_run();
        apply(&store, node, &start_with(run, Some(node), big)).await;
        apply(&store, node, &end(run, 2, at(0))).await;
        assert!(store.pages().await.unwrap() > before + 50);
        assert_eq!(store.sweep(Timestamp::NEVER, 10).await.unwrap(), 1);
        store.maintain(at(0)).await.unwrap();
        assert!(store.pages().await.unwrap() <= before + 5);
    });
}

#[test]
fn a_swept_run_leaves_even_its_id() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let node = member(&store).await;
        let run = owned_run(&store, node).await;
        apply(&store, node, &end(run, 2, at(0))).await;
        assert_eq!(store.sweep(Timestamp::NEVER, 10).await.unwrap(), 1);
        apply(&store, node, &start(run, Some(node))).await;
        assert_eq!(seqs(&store, run).await, [1]);
    });
}

/// A run that has ended, with more entries than one transaction of a sweep deletes.
fn long_run(node: NodeId, run: RunId) -> [Item; 3] {
    let entries = (2..=30_000).map(|seq| entry(seq, Kind::StepCompleted, Some(&format!("s{seq}")))).collect();
    let long = Item { entries, ..item(run, Gate::Owned) };
    [start(run, Some(node)), long, end(run, 30_001, at(0))]
}

#[test]
fn a_run_is_gone_before_its_long_journal_is() {
    let mut database = Database::in_memory().unwrap();
    let (node, run) = (new_node(), new_run());
    database.join(node, LEASE, None).unwrap();
    let outcomes = database.commit(node, &long_run(node, run)).unwrap();
    assert_eq!(outcomes, [applied(), applied(), applied()]);

    let swept = database.sweep(Timestamp::NEVER, 10).unwrap();
    assert!(swept.runs == 1 && swept.is_cut);
    assert_eq!(database.load_run(run).unwrap(), None);
    // A caller that had read it before cannot retry it.
    let retry = Item {
        entries: vec![entry(30_002, Kind::RunRetried, None)],
        projection: Some(projection(Status::Running, Some(node), at(0))),
        ..item(run, Gate::Unowned)
    };
    assert_eq!(database.commit(node, &[retry]).unwrap(), [CommitOutcome::Lost]);
    // A new run with its id cannot start while entries are left.
    assert_eq!(database.commit(node, &[start(run, Some(node))]).unwrap(), [CommitOutcome::Conflict]);

    // As after a restart: the next sweep deletes the rest, before other due rows.
    let swept = database.sweep(at(0), 10).unwrap();
    assert!(swept.runs == 0 && !swept.is_cut);
    assert_eq!(database.journal(run, 0, 10).unwrap(), []);
    assert_eq!(database.commit(node, &[start(run, Some(node))]).unwrap(), [applied()]);
}

#[test]
fn a_fork_that_has_the_id_of_one_before_has_nothing_of_its_journal() {
    let mut database = Database::in_memory().unwrap();
    let (node, source, fork) = (new_node(), new_run(), new_run());
    database.join(node, LEASE, None).unwrap();
    database.commit(node, &[start(source, Some(node))]).unwrap();
    database.commit(node, &long_run(node, fork)).unwrap();
    assert!(database.sweep(Timestamp::NEVER, 10).unwrap().is_cut);

    assert_eq!(database.fork_run(HERE, source, &NewFork::new(fork, 1, at(0))).unwrap(), Some(1));
    database.sweep(at(0), 10).unwrap();
    let seqs: Vec<_> = database.journal(fork, 0, 10).unwrap().into_iter().map(|entry| entry.seq).collect();
    assert_eq!(seqs, [1]);
}

/// The simulator must catch this bug; this test shows that it exists.
#[cfg(feature = "planted-bugs")]
#[test]
fn the_planted_bug_writes_the_rest_of_a_refused_item() {
    use everstep_core::planted::{Bug, plant};

    let mut database = Database::in_memory().unwrap();
    let (node, other, run) = (new_node(), new_node(), new_run());
    for node in [node, other] {
        database.join(node, LEASE, None).unwrap();
    }
    database.commit(node, &[start(run, Some(node))]).unwrap();
    assert_eq!(database.commit(other, &[step(run, 2)]).unwrap(), [CommitOutcome::Lost]);
    plant(Some(Bug::ItemWithoutHeadGate));
    assert_eq!(database.commit(other, &[step(run, 2)]).unwrap(), [applied()]);
    plant(None);
    let seqs: Vec<_> = database.journal(run, 0, 10).unwrap().into_iter().map(|entry| entry.seq).collect();
    assert_eq!(seqs, [1, 3]);
}
