//! Reads: journals, loads and lists.

use std::sync::Arc;

use everstep_core::ids::{RunId, StepKey};
use everstep_core::journal::Kind;
use everstep_core::status::Status;
use everstep_store::{Gate, Item, NewEntry, NewFork, NewRun, RunFilter, RunStore, Snapshot, StoredEntry};

use crate::contract::fixtures::*;

pub async fn entries_come_back_as_they_were_written(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let item = step(run, 2);
    apply(&*store, node, &item).await;
    let expected: Vec<_> = item
        .entries
        .iter()
        .map(|entry| StoredEntry {
            seq: entry.seq,
            at: entry.at,
            writer: node,
            // The first entry of an item contains its proposal.
            commit: (entry.seq == 2).then_some(item.commit),
            row: entry.row.clone(),
        })
        .collect();
    assert_eq!(store.journal(run, 1, 10).await.unwrap(), expected);
    assert_eq!(load(&*store, run).await.entries[1..], expected);
}

/// A store may omit the writer and the time of an entry if they equal those of the previous entry of its item.
pub async fn entries_of_one_time_come_back_with_it(store: Arc<dyn RunStore>) {
    let (starter, node) = (member(&*store).await, member(&*store).await);
    let run = unowned_run(&*store, starter).await;
    let steps = [(Kind::StepDispatched, "a", 5), (Kind::StepDispatched, "b", 5), (Kind::StepCompleted, "a", 6)];
    let steps = steps.into_iter().chain([(Kind::StepCompleted, "b", 6), (Kind::StepDispatched, "c", 6)]);
    let mut entries: Vec<_> = (2..)
        .zip(steps)
        .map(|(seq, (kind, step, seconds))| NewEntry { at: at(seconds), ..entry(seq, kind, Some(step)) })
        .collect();
    entries[3].row.payload = br#"{"output":null}"#.to_vec();
    let projection = Some(projection(Status::Running, Some(node), at(0)));
    let item = Item { entries, projection, ..item(run, Gate::Unowned) };
    apply(&*store, node, &item).await;
    let expected: Vec<_> = item
        .entries
        .iter()
        .map(|entry| StoredEntry {
            seq: entry.seq,
            at: entry.at,
            writer: node,
            commit: (entry.seq == 2).then_some(item.commit),
            row: entry.row.clone(),
        })
        .collect();
    let fork = new_run();
    assert_eq!(store.fork_run(HERE, run, NewFork::new(fork, 6, at(100))).await.unwrap(), Some(6));
    for run in [run, fork] {
        for (after, skipped) in (1..=6).zip(0_usize..) {
            assert_eq!(store.journal(run, after, 10).await.unwrap(), expected[skipped..]);
        }
        let loaded = load(&*store, run).await;
        assert_eq!(loaded.entries[1..], expected);
        assert_eq!(loaded.entries[0].writer, starter);
    }
}

pub async fn a_journal_is_read_in_pages(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    for seq in [2, 4, 6] {
        apply(&*store, node, &step(run, seq)).await;
    }
    let page = |after, limit| {
        let store = store.clone();
        async move {
            let entries = store.journal(run, after, limit).await.unwrap();
            entries.into_iter().map(|entry| entry.seq).collect::<Vec<_>>()
        }
    };
    assert_eq!(page(0, 3).await, [1, 2, 3]);
    assert_eq!(page(3, 3).await, [4, 5, 6]);
    assert_eq!(page(6, 3).await, [7]);
    assert_eq!(page(7, 3).await, [0; 0]);
    assert_eq!(page(u64::MAX, 3).await, [0; 0]);
}

pub async fn payloads_of_any_length_and_content_come_back(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let mut noise = 1_u64;
    let random: Vec<u8> = std::iter::repeat_with(|| {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        noise.to_be_bytes()[0]
    })
    .take(100_000)
    .collect();
    let payloads = [
        Vec::new(),
        br#"{"nul":"a\u0000b","raw":"ok"}"#.to_vec(),
        b"raw \0 byte".to_vec(),
        r#"{"text":"ünïcode ✓ 🚀 العربية"}"#.as_bytes().to_vec(),
        vec![b'x'; 2 * 1024],
        vec![b'x'; 2 * 1024 + 1],
        format!(r#"{{"big":"{}"}}"#, "lorem ipsum ✓ ".repeat(70_000)).into_bytes(),
        random,
    ];
    let mut item = Item { entries: vec![], ..item(run, Gate::Owned) };
    for (seq, payload) in (2..).zip(&payloads) {
        let mut entry = entry(seq, Kind::ContextSet, None);
        entry.row.payload.clone_from(payload);
        item.entries.push(entry);
    }
    apply(&*store, node, &item).await;
    let stored = store.journal(run, 1, 100).await.unwrap();
    assert_eq!(stored.len(), payloads.len());
    for (stored, payload) in stored.iter().zip(&payloads) {
        assert!(stored.row.payload == *payload, "entry {} of {} bytes changed", stored.seq, payload.len());
    }
}

pub async fn step_keys_of_any_script_come_back(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let key = "prüfen ✓[3].'\"; drop table runs; --";
    let item = Item { entries: vec![entry(2, Kind::StepSkipped, Some(key))], ..item(run, Gate::Owned) };
    apply(&*store, node, &item).await;
    assert_eq!(store.journal(run, 1, 1).await.unwrap()[0].row.step, Some(StepKey::from(key)));
}

pub async fn a_missing_run_is_none((store, tables): (Arc<dyn RunStore>, Tables)) {
    let run = new_run();
    assert_eq!(store.load_run(run).await.unwrap(), None);
    assert_eq!(store.get_run(HERE, run).await.unwrap(), None);
    assert_eq!(tables.run_with_key(HERE, "", "key").await, None);
    assert_eq!(store.journal(run, 0, 10).await.unwrap(), []);
}

pub async fn a_run_is_hidden_from_other_workspaces(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    assert!(store.get_run(HERE, run).await.unwrap().is_some());
    assert_eq!(store.get_run(new_workspace(), run).await.unwrap(), None);
    let page = store.list_runs(new_workspace(), RunFilter::default(), None, 10).await.unwrap();
    assert_eq!(page.runs, []);
}

pub async fn a_load_sees_one_moment(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            for seq in 2..100 {
                let entries = vec![entry(seq, Kind::ContextSet, None)];
                let item = Item { entries, inbox_inputs: vec![inbox_input(run, "one")], ..item(run, Gate::Owned) };
                apply(&*store, node, &item).await;
            }
        })
    };
    // Each item adds an entry and an inbox input, so that there is always one more entry than inputs.
    while !writer.is_finished() {
        let loaded = load(&*store, run).await;
        assert_eq!(loaded.entries.len(), loaded.inbox.len() + 1);
    }
    writer.await.unwrap();
    assert_eq!(load(&*store, run).await.inbox.len(), 98);
}

pub async fn a_snapshot_spares_the_entries_before_it(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    apply(&*store, node, &step(run, 2)).await;
    apply(&*store, node, &step(run, 4)).await;
    let snapshot = Snapshot { seq: 3, format: 1, state: b"state ".repeat(10_000) };
    store.put_snapshot(run, snapshot.clone()).await.unwrap();
    let loaded = load(&*store, run).await;
    assert_eq!(loaded.snapshot, Some(snapshot));
    assert_eq!(loaded.entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(seqs(&*store, run).await, [1, 2, 3, 4, 5]);
}

pub async fn snapshots_never_go_back(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let snapshot = |seq, state: &str| Snapshot { seq, format: 1, state: state.as_bytes().to_vec() };
    for (put, kept) in [
        (snapshot(3, "three"), snapshot(3, "three")),
        (snapshot(2, "two"), snapshot(3, "three")),
        (snapshot(3, "again"), snapshot(3, "again")),
        (snapshot(5, "five"), snapshot(5, "five")),
    ] {
        store.put_snapshot(run, put).await.unwrap();
        assert_eq!(load(&*store, run).await.snapshot, Some(kept));
    }
    // A deleted run has none.
    store.put_snapshot(new_run(), snapshot(1, "of no run")).await.unwrap();
}

/// Starts a run created at a time.
async fn created(store: &dyn RunStore, seconds: i64, workflow: &str) -> RunId {
    let node = member(store).await;
    let run = new_run();
    let new = NewRun { workflow: workflow.to_owned(), created_at: at(seconds), ..new() };
    apply(store, node, &start_with(run, Some(node), new)).await;
    run
}

async fn list(store: &dyn RunStore, filter: RunFilter) -> Vec<RunId> {
    let page = store.list_runs(HERE, filter, None, 100).await.unwrap();
    assert_eq!(page.next, None);
    page.runs.into_iter().map(|run| run.id).collect()
}

pub async fn pages_of_runs_are_stable_while_runs_are_added(store: Arc<dyn RunStore>) {
    let mut expected = vec![];
    for seconds in [1, 2, 2, 2, 3, 4, 5] {
        expected.push(created(&*store, seconds, "orders").await);
    }
    expected.reverse();
    let mut seen = vec![];
    let mut after = None;
    loop {
        let page = store.list_runs(HERE, RunFilter::default(), after, 2).await.unwrap();
        assert!(page.runs.len() <= 2);
        seen.extend(page.runs.iter().map(|run| run.id));
        // Runs that are newer than the page do not shift later pages.
        created(&*store, 9, "orders").await;
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    assert_eq!(seen, expected);
}

pub async fn a_full_last_page_has_no_next(store: Arc<dyn RunStore>) {
    for seconds in 0..4 {
        created(&*store, seconds, "orders").await;
    }
    let first = store.list_runs(HERE, RunFilter::default(), None, 2).await.unwrap();
    let last = store.list_runs(HERE, RunFilter::default(), first.next, 2).await.unwrap();
    assert_eq!((last.runs.len(), last.next), (2, None));
}

pub async fn runs_are_filtered(store: Arc<dyn RunStore>) {
    let early = created(&*store, 10, "orders").await;
    let other = created(&*store, 20, "invoices").await;
    let late = created(&*store, 30, "orders").await;
    let node = member(&*store).await;
    let parked = owned_run(&*store, node).await;
    apply(&*store, node, &park(parked, at(60))).await;

    let all = RunFilter::default;
    assert_eq!(list(&*store, all()).await, [late, other, early, parked]);
    assert_eq!(list(&*store, RunFilter { workflow: Some("orders".into()), ..all() }).await, [late, early, parked]);
    assert_eq!(list(&*store, RunFilter { statuses: vec![Status::Waiting], ..all() }).await, [parked]);
    assert_eq!(list(&*store, RunFilter { since: Some(at(20)), ..all() }).await, [late, other]);
    assert_eq!(list(&*store, RunFilter { until: Some(at(20)), ..all() }).await, [early, parked]);
    let narrow = RunFilter {
        workflow: Some("orders".into()),
        statuses: vec![Status::Running],
        since: Some(at(10)),
        until: Some(at(30)),
        ..all()
    };
    assert_eq!(list(&*store, narrow).await, [early]);
}

pub async fn test_runs_are_not_listed(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = new_run();
    apply(&*store, node, &start_with(run, Some(node), NewRun { is_test: true, ..new() })).await;
    assert_eq!(list(&*store, RunFilter::default()).await, []);
    assert_eq!(list(&*store, RunFilter { workflow: Some("orders".into()), ..RunFilter::default() }).await, []);
    assert!(store.get_run(HERE, run).await.unwrap().unwrap().is_test);
}

pub async fn maintenance_changes_nothing_that_is_read(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    apply(&*store, node, &step(run, 2)).await;
    let before = load(&*store, run).await;
    for seconds in [0, 365 * 86_400] {
        store.maintain(at(seconds)).await.unwrap();
        assert_eq!(load(&*store, run).await, before);
    }
    apply(&*store, node, &step(run, 4)).await;
}

pub async fn calls_are_counted(store: Arc<dyn RunStore>) {
    let before = store.calls();
    store.nodes().await.unwrap();
    store.next_wake("").await.unwrap();
    assert_eq!(store.calls() - before, 2);
}
