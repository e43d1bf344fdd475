//! The additional promises of SQLite: a data folder, a lock, a full disk.

use std::path::Path;
use std::sync::Arc;

use everstep_core::dead_letter::DeadLetter;
use everstep_core::ids::{NodeId, RunId};
use everstep_core::journal::Kind;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::sqlite::{Database, Options, SqliteStore};
use everstep_store::{
    CommitOutcome, DeadLetterClaim, DeadLetterFilter, DeadLetterStore, Error, FileStore, Gate, Item, NewEntry, NewFork,
    NewRun, PublishOutcome, RunFilter, RunStore, TopicStore, UnmatchedEvents, WaitChange,
};
use everstep_testkit::contract::{fixtures::*, run};
use serde_json::json;

fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder, &Options::default()).unwrap()
}

/// The writer is the only one, so that a transaction sees every subscription and every wait.
#[test]
fn an_event_without_a_target_is_written_with_its_fan_out_done() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let node = member(&store).await;
        let paused = everstep_core::topics::Subscription { paused_at: Some(at(1)), ..subscription("order.*", 0) };
        store.add_subscription(&paused, 10).await.unwrap();
        let waiting = owned_run(&store, node).await;
        let wait = wait_for("s", "invoice.paid", json!({"id": 1}));
        apply(&store, node, &Item { waits: vec![WaitChange::Open(wait)], ..step(waiting, 2) }).await;
        let signal = everstep_store::Wait { by_topic: false, ..wait_for("t", "invoice.sent", json!({})) };
        apply(&store, node, &Item { waits: vec![WaitChange::Open(signal)], ..step(waiting, 4) }).await;

        let topics = ["order.sent", "invoice.paid", "invoice.sent", "orders", "invoice.sent"];
        let mut events: Vec<_> = topics.iter().map(|topic| topic_event(topic, json!({"id": 2}), 0)).collect();
        // A replay names its subscription.
        events[4].replay_of = Some((events[0].id, paused.id));
        let outcomes = store.publish(&events, UnmatchedEvents::Done).await.unwrap();
        use PublishOutcome::{Published, Unmatched};
        assert_eq!(outcomes, [Published, Published, Unmatched, Unmatched, Published]);
        for (event, outcome) in events.iter().zip(&outcomes) {
            let row = event_row(&store, event.id).await;
            assert_eq!(row.fanned_at, (*outcome == Unmatched).then_some(event.at), "{}", event.topic);
        }
        assert_eq!(store.open_events(much_later(), None, 10).await.unwrap().len(), 3);
        // The same events again, after an unknown outcome: the fan-out finds that there is nothing to do.
        let again = store.publish(&events, UnmatchedEvents::Done).await.unwrap();
        assert!(again.iter().all(|outcome| *outcome == Published), "{again:?}");
    });
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

/// A store with many ended runs, and a run that continues.
async fn with_expired_runs(store: &SqliteStore, node: NodeId, count: usize) -> RunId {
    let runs: Vec<_> = (0..count).map(|_| new_run()).collect();
    for part in runs.chunks(500) {
        let starts: Vec<_> = part.iter().map(|run| start(*run, Some(node))).collect();
        store.commit(node, &starts).await.unwrap();
        let steps: Vec<_> = part.iter().map(|run| step(*run, 2)).collect();
        store.commit(node, &steps).await.unwrap();
        let ends: Vec<_> = part.iter().map(|run| end(*run, 4, at(1))).collect();
        store.commit(node, &ends).await.unwrap();
    }
    owned_run(store, node).await
}

#[test]
fn commits_stay_fast_while_many_runs_are_deleted() {
    const RUNS: usize = 20_000;
    const COMMITS: u64 = 200;
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(open(folder.path()));
        let node = member(&*store).await;
        let run = with_expired_runs(&store, node, RUNS).await;
        let later = at(1_000 * 86_400);
        let sweep = tokio::spawn({
            let store = Arc::clone(&store);
            async move { store.sweep(later, RUNS).await.unwrap() }
        });
        let before = store.calls();
        for n in 0..COMMITS {
            apply(&*store, node, &step(run, 2 + 2 * n)).await;
        }
        assert!(!sweep.is_finished(), "the commits are made while runs are deleted");
        // Without pauses, a transaction of the sweep is executed before every commit.
        let transactions = store.calls() - before - COMMITS;
        assert!(transactions > 0 && transactions < COMMITS * 3 / 4, "{transactions} transactions");
        // A transaction deletes a small part of the runs, however many are due.
        assert_eq!(sweep.await.unwrap(), RUNS);
        let transactions = store.calls() - before - COMMITS;
        assert!(transactions > 40, "{transactions} transactions");
        assert_eq!(store.list_runs(HERE, RunFilter::default(), None, 10).await.unwrap().runs.len(), 1);
    });
}

#[test]
fn no_term_outlives_its_run() {
    let mut database = Database::in_memory().unwrap();
    let (node, run) = (new_node(), new_run());
    database.join(node, LEASE, None).unwrap();
    let tagged = NewRun { tags: Payload::from(json!({"team": "blue", "size": 3})), ..new() };
    database.commit(node, &[start_with(run, Some(node), tagged)]).unwrap();
    database.commit(node, &[end(run, 2, at(1))]).unwrap();
    let terms = |database: &Database| -> u32 {
        database.connection().query_row("select count(*) from run_terms", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(terms(&database), 2);
    assert_eq!(database.sweep(Timestamp::NEVER, 10).unwrap().runs, 1);
    assert_eq!(terms(&database), 0);
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

/// The contract shows that they are read back.
#[test]
fn a_row_of_the_journal_omits_the_writer_and_time_of_the_previous_row() {
    let mut database = Database::in_memory().unwrap();
    let (node, run) = (new_node(), new_run());
    database.join(node, LEASE, None).unwrap();
    database.commit(node, &[start(run, Some(node))]).unwrap();
    let mut item = step(run, 2);
    let completed = entry(4, Kind::StepCompleted, Some("s4"));
    item.entries.push(NewEntry { at: at(3), ..completed });
    item.entries[2].row.payload = br#"{"output":null}"#.to_vec();
    assert_eq!(database.commit(node, &[item]).unwrap(), [applied()]);
    let sql = "select length(writer), at, codec, length(payload) from journal order by seq";
    let mut statement = database.connection().prepare(sql).unwrap();
    let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).unwrap();
    let rows: Vec<(i64, i64, i64, i64)> = rows.map(Result::unwrap).collect();
    let stated = |seconds| (16, at(seconds).micros(), 0, 2);
    assert_eq!(rows, [stated(1), stated(2), stated(3), (0, 0, 2, 0)]);
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

#[test]
fn letters_of_crowded_workspaces_are_not_decoded() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let node = member(&store).await;
        let letters = written_letters(&store, node, &[1, 2]).await;
        let crowded = DeadLetter { workspace: new_workspace(), ..dead_letter(new_run(), 3) };
        write_letter(&store, node, &crowded).await;
        for letter in [&crowded, &letters[0], &letters[1]] {
            let filter = DeadLetterFilter::by_id(letter.id);
            assert_eq!(store.queue_letters(letter.workspace, &filter, at(5), 1).await.unwrap().count, 1);
        }
        // A decoder would reject its attempts.
        let connection = rusqlite::Connection::open(folder.path().join("everstep.db")).unwrap();
        let workspace = crowded.workspace.uuid().into_bytes();
        connection.execute("update dead_letters set attempts = 'x' where workspace = ?1", [workspace]).unwrap();
        let claim = DeadLetterClaim { crowded: vec![crowded.workspace], ..claim_letters(5) };
        let taken = store.take_letters(node, &claim).await.unwrap();
        assert_eq!(taken_ids(&taken), [letters[0].id, letters[1].id]);
        let error = store.take_letters(node, &claim_letters(5)).await.unwrap_err();
        assert!(matches!(error, Error::Corrupt(_)), "{error:?}");
    });
}

/// Two uploads and another caller: the chunks of both together are written at the pace of files.
#[test]
fn chunks_of_files_leave_the_writer_to_other_callers() {
    const CHUNKS: u32 = 6;
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(open(folder.path()));
        let began = std::time::Instant::now();
        let uploads = [new_file(), new_file()].map(|file| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                store.begin_file(&file, QUOTA).await.unwrap();
                for chunk in 0..CHUNKS {
                    store.pages().await.unwrap();
                    assert!(store.add_chunk(file.id, chunk, vec![7; 1_000]).await.unwrap());
                }
            })
        });
        for upload in uploads {
            upload.await.unwrap();
        }
        // The last chunk has no other caller after it, and so no pause.
        let least = std::time::Duration::from_millis(8) * (2 * CHUNKS - 1);
        assert!(began.elapsed() >= least, "{:?}", began.elapsed());
    });
}
