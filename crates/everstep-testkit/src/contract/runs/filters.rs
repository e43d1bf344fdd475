//! Lists of runs by their common properties.

use std::sync::Arc;

use everstep_core::failure::Failure;
use everstep_core::ids::{NodeId, RunId};
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::{Item, NewFork, NewRun, Projection, RunFilter, RunStore};
use serde_json::{Value, json};

use crate::contract::fixtures::*;

async fn started(store: &dyn RunStore, node: NodeId, new: NewRun) -> RunId {
    let run = new_run();
    apply(store, node, &start_with(run, Some(node), new)).await;
    run
}

async fn started_with(store: &dyn RunStore, input: Value) -> RunId {
    let node = member(store).await;
    started(store, node, NewRun { input: Payload::from(input), ..new() }).await
}

/// All runs that a filter finds, oldest first.
async fn list(store: &dyn RunStore, filter: RunFilter) -> Vec<RunId> {
    let page = store.list_runs(HERE, filter, None, 100).await.unwrap();
    assert_eq!(page.next, None);
    page.runs.into_iter().rev().map(|run| run.id).collect()
}

fn input(path: &[&str], text: &str) -> RunFilter {
    let path = path.iter().map(ToString::to_string).collect();
    RunFilter { input: vec![(path, text.to_owned())], ..RunFilter::default() }
}

pub async fn runs_are_listed_by_any_of_some_statuses(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let (running, waiting, completed) =
        (owned_run(&*store, node).await, owned_run(&*store, node).await, owned_run(&*store, node).await);
    apply(&*store, node, &park(waiting, at(60))).await;
    apply(&*store, node, &end(completed, 2, at(1))).await;
    let filter_by = |statuses: &[Status]| RunFilter { statuses: statuses.to_vec(), ..RunFilter::default() };
    assert_eq!(list(&*store, filter_by(&[])).await, [running, waiting, completed]);
    assert_eq!(list(&*store, filter_by(&[Status::Running, Status::Completed])).await, [running, completed]);
    assert_eq!(list(&*store, filter_by(&[Status::Waiting])).await, [waiting]);
    assert_eq!(list(&*store, filter_by(&[Status::Failed, Status::Paused])).await, []);
}

pub async fn runs_are_listed_by_one_status_without_others(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    // A message may have any characters.
    let failure = Failure::fatal("CARD_DECLINED", "no\0 \\u0000");
    let mut failed = vec![];
    for n in 0..30 {
        let new = NewRun { workflow: format!("w{}", n % 3), created_at: at(n / 5), ..new() };
        let run = started(&*store, node, new).await;
        if n % 10 == 0 {
            let projection = Projection { error: Some(failure.clone()), ..ended(Status::Failed, at(90)) };
            apply(&*store, node, &Item { projection: Some(projection), ..end(run, 2, at(90)) }).await;
            failed.push(run);
        }
    }
    let by_status = RunFilter { statuses: vec![Status::Failed], ..RunFilter::default() };
    let by_error = RunFilter { error_code: Some("CARD_DECLINED".to_owned()), ..RunFilter::default() };
    for filter in [by_status, by_error] {
        let page = store.list_runs(HERE, filter.clone(), None, 100).await.unwrap();
        assert_eq!((page.runs.len(), page.next, page.scanned), (3, None, 3), "{filter:?}");
        assert_eq!(list(&*store, filter.clone()).await, failed);
        // The second page begins after the first.
        let first = store.list_runs(HERE, filter.clone(), None, 2).await.unwrap();
        let second = store.list_runs(HERE, filter.clone(), first.next, 2).await.unwrap();
        assert_eq!((second.runs[0].id, second.runs.len(), second.next), (failed[0], 1, None));
        let of_one = RunFilter { workflow: Some("w1".to_owned()), ..filter.clone() };
        assert_eq!(list(&*store, of_one).await, [failed[1]]);
        assert_eq!(store.list_runs(new_workspace(), filter, None, 10).await.unwrap().runs, []);
    }
}

pub async fn runs_are_listed_by_several_statuses_without_others(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let mut runs = vec![];
    for n in 0..48 {
        let status = Status::ALL[n % Status::ALL.len()];
        let (workflow, created_at) = (if n % 2 == 0 { "even" } else { "odd" }, at(n as i64 / 5));
        let new = NewRun { workflow: workflow.to_owned(), created_at, ..new() };
        let open = projection(status, None, Timestamp::NEVER);
        let projection = if status.has_ended() { ended(status, at(90)) } else { open };
        let item = Item { projection: Some(projection), ..start_with(new_run(), None, new) };
        apply(&*store, node, &item).await;
        runs.push((created_at, item.run, workflow, status));
    }
    // Runs of one time are ordered by their ids.
    runs.sort_unstable_by_key(|(created_at, run, ..)| (*created_at, *run));
    runs.reverse();
    use Status::{Cancelled, Failed, Paused, Pending, Running, Waiting};
    for statuses in [
        vec![Running],
        vec![Waiting, Failed],
        vec![Failed, Waiting, Failed],
        vec![Pending, Running],
        vec![Pending, Waiting, Paused, Failed, Cancelled],
        vec![Pending, Running, Waiting, Paused, Failed, Cancelled],
    ] {
        for workflow in [None, Some("odd")] {
            let filter =
                RunFilter { statuses: statuses.clone(), workflow: workflow.map(str::to_owned), ..RunFilter::default() };
            let is_listed = |of: &str, status| statuses.contains(&status) && workflow.is_none_or(|it| it == of);
            let listed = runs.iter().filter(|(_, _, of, status)| is_listed(of, *status));
            let expected: Vec<_> = listed.map(|(_, run, ..)| *run).collect();
            let page = store.list_runs(HERE, filter.clone(), None, 100).await.unwrap();
            assert_eq!((page.next, page.scanned), (None, expected.len()), "{filter:?}");
            assert_eq!(page.runs.iter().map(|run| run.id).collect::<Vec<_>>(), expected, "{filter:?}");
            let (mut seen, mut after) = (vec![], None);
            loop {
                let page = store.list_runs(HERE, filter.clone(), after, 3).await.unwrap();
                seen.extend(page.runs.iter().map(|run| run.id));
                let Some(next) = page.next else { break };
                assert_eq!(page.runs.len(), 3);
                after = Some(next);
            }
            assert_eq!(seen, expected, "{filter:?}");
        }
    }
}

pub async fn runs_are_listed_by_version(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let one = owned_run(&*store, node).await;
    let two = started(&*store, node, NewRun { version: 2, ..new() }).await;
    let filter_by =
        |version| RunFilter { version: Some(version), workflow: Some("orders".into()), ..RunFilter::default() };
    assert_eq!(list(&*store, filter_by(1)).await, [one]);
    assert_eq!(list(&*store, filter_by(2)).await, [two]);
    assert_eq!(list(&*store, filter_by(u32::MAX)).await, []);
}

pub async fn runs_are_listed_by_parent(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let parent = owned_run(&*store, node).await;
    let child = |workflow: &str| NewRun { workflow: workflow.into(), parent: Some(parent), ..new() };
    let first = started(&*store, node, child("orders")).await;
    let second = started(&*store, node, child("invoices")).await;
    started(&*store, node, NewRun { parent: Some(new_run()), ..new() }).await;
    started(&*store, node, NewRun { is_test: true, ..child("orders") }).await;
    let filter_by = |parent| RunFilter { parent: Some(parent), ..RunFilter::default() };
    assert_eq!(list(&*store, filter_by(parent)).await, [first, second]);
    assert_eq!(list(&*store, RunFilter { workflow: Some("invoices".into()), ..filter_by(parent) }).await, [second]);
    assert_eq!(list(&*store, filter_by(first)).await, []);
    let page = store.list_runs(HERE, filter_by(parent), None, 1).await.unwrap();
    assert_eq!((page.runs[0].id, page.runs[0].parent), (second, Some(parent)));
    let page = store.list_runs(HERE, filter_by(parent), page.next, 1).await.unwrap();
    assert_eq!((page.runs[0].id, page.next), (first, None));
    assert_eq!(store.list_runs(new_workspace(), filter_by(parent), None, 10).await.unwrap().runs, []);
}

pub async fn runs_are_found_by_what_their_input_holds(store: Arc<dyn RunStore>) {
    let number =
        started_with(&*store, json!({ "order": { "id": 42, "lines": [{ "sku": "a" }, { "sku": "b" }] } })).await;
    let text = started_with(&*store, json!({ "order": { "id": "42" } })).await;
    let float = started_with(&*store, json!({ "order": { "id": 42.0 } })).await;
    let yes = started_with(&*store, json!({ "order": { "id": true } })).await;
    let null = started_with(&*store, json!({ "order": { "id": null } })).await;
    started_with(&*store, json!({ "order": 42 })).await;
    started_with(&*store, json!([42])).await;
    let id = |text| input(&["order", "id"], text);
    assert_eq!(list(&*store, id("42")).await, [number, text, float]);
    assert_eq!(list(&*store, id("true")).await, [yes]);
    assert_eq!(list(&*store, id("null")).await, [null]);
    assert_eq!(list(&*store, id("4")).await, []);
    assert_eq!(list(&*store, id("")).await, []);
    assert_eq!(list(&*store, input(&["order", "lines", "1", "sku"], "b")).await, [number]);
    assert_eq!(list(&*store, input(&["order", "lines", "-1", "sku"], "b")).await, []);
    assert_eq!(list(&*store, input(&["order", "missing"], "null")).await, []);
    // All of several conditions must hold.
    let both = |sku: &str| RunFilter {
        input: vec![id("42").input.remove(0), input(&["order", "lines", "0", "sku"], sku).input.remove(0)],
        ..RunFilter::default()
    };
    assert_eq!(list(&*store, both("a")).await, [number]);
    assert_eq!(list(&*store, both("b")).await, []);
}

pub async fn inputs_of_any_script_are_found(store: Arc<dyn RunStore>) {
    let odd = "a\"b'c\\d%e_{},:ünïcode ✓ 🚀\n";
    let mut names = vec![odd, "%", "", "a.b", "null", "-1", "+1", "01", " 1"];
    for name in &names {
        started_with(&*store, json!({ *name: odd })).await;
    }
    names.sort_unstable();
    for name in names {
        let page = store.list_runs(HERE, input(&[name], odd), None, 10).await.unwrap();
        assert_eq!(page.runs.len(), 1, "{name:?}");
    }
    assert_eq!(list(&*store, input(&["%"], "%")).await, []);
}

pub async fn inputs_are_found_however_they_are_written(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let mut runs = vec![];
    // The last ones are texts that other programs may be unable to read.
    for text in [
        r#"{"k":"é","n":10}"#,
        r#"{ "k" : "\u00e9", "n" : 1e1 }"#,
        r#"{"k":"no","k":"é","n":10.0}"#,
        r#"{"\u006b":"é","n":10,"nul":"a\u0000b"}"#,
        r#"{"k":"é","n":10,"half":"\ud83d"}"#,
    ] {
        let input = Payload::from_json(text).unwrap();
        runs.push(started(&*store, node, NewRun { input, ..new() }).await);
    }
    // Half a surrogate pair cannot be read at all, so nothing is found in it.
    let readable = &runs[..4];
    assert_eq!(list(&*store, input(&["k"], "é")).await, readable);
    assert_eq!(list(&*store, input(&["n"], "10")).await, readable);
    assert_eq!(list(&*store, input(&["n"], "1.0e1")).await, readable);
    assert_eq!(list(&*store, RunFilter::default()).await, runs);
}

pub async fn runs_are_found_by_their_tags(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let tagged = |tags: Value| NewRun { tags: Payload::from(tags), ..new() };
    let blue = started(&*store, node, tagged(json!({ "team": "blue", "size": 3 }))).await;
    let red = started(&*store, node, tagged(json!({ "team": "red", "size": "3" }))).await;
    started(&*store, node, tagged(json!(["team", "blue"]))).await;
    let filter_by = |tags: &[(&str, &str)]| RunFilter {
        tags: tags.iter().map(|(key, text)| (key.to_string(), text.to_string())).collect(),
        ..RunFilter::default()
    };
    assert_eq!(list(&*store, filter_by(&[("team", "blue")])).await, [blue]);
    assert_eq!(list(&*store, filter_by(&[("size", "3")])).await, [blue, red]);
    assert_eq!(list(&*store, filter_by(&[("size", "3"), ("team", "red")])).await, [red]);
    assert_eq!(list(&*store, filter_by(&[("0", "team")])).await, []);
    assert_eq!(list(&*store, filter_by(&[("te%", "blue")])).await, []);
}

pub async fn filtered_pages_are_stable_while_runs_are_added(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let wanted =
        |seconds, n: i64| NewRun { input: Payload::from(json!({ "n": n % 2 })), created_at: at(seconds), ..new() };
    let mut expected = vec![];
    for n in 0..14 {
        let run = started(&*store, node, wanted(n / 4, n)).await;
        if n % 2 == 1 {
            expected.push(run);
        }
    }
    expected.reverse();
    let (mut seen, mut after) = (vec![], None);
    loop {
        let page = store.list_runs(HERE, input(&["n"], "1"), after, 2).await.unwrap();
        assert!(page.runs.len() <= 2);
        seen.extend(page.runs.iter().map(|run| run.id));
        started(&*store, node, wanted(9, 1)).await;
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    assert_eq!(seen, expected);
}

pub async fn a_page_looks_at_ten_thousand_runs(store: Arc<dyn RunStore>) {
    const EXAMINED_RUNS_MAX: i64 = 10_000;
    let node = member(&*store).await;
    let parent = new_run();
    let mut items = vec![];
    // The two oldest are the expected ones.
    for n in 0..EXAMINED_RUNS_MAX + 2 {
        let status = if n < 2 { Status::Running } else { Status::Waiting };
        let new = NewRun {
            input: Payload::from(json!({ "n": n })),
            created_at: at(n),
            parent: Some(parent),
            tags: Payload::from(json!({ "is": if n < 2 { "old" } else { "new" } })),
            ..new()
        };
        let mut item = start_with(new_run(), None, new);
        item.projection = Some(projection(status, None, Timestamp::NEVER));
        items.push(item);
    }
    for batch in items.chunks(500) {
        store.commit(node, batch).await.unwrap();
    }
    let (first, second) = (items[0].run, items[1].run);
    let by_status = RunFilter { statuses: vec![Status::Running, Status::Completed], ..RunFilter::default() };
    for filter in [
        RunFilter { workflow: Some("orders".to_owned()), ..by_status.clone() },
        RunFilter { parent: Some(parent), ..by_status.clone() },
        by_status,
    ] {
        let page = store.list_runs(HERE, filter.clone(), None, 10).await.unwrap();
        assert_eq!((page.runs, page.next), (vec![], Some((at(2), items[2].run))), "{filter:?}");
        assert_eq!(page.scanned, 10_000);
        let page = store.list_runs(HERE, filter, page.next, 10).await.unwrap();
        let runs: Vec<_> = page.runs.iter().map(|run| run.id).collect();
        assert_eq!((runs, page.next, page.scanned), (vec![second, first], None, 2));
    }
    // The index has these two only.
    let running = RunFilter { statuses: vec![Status::Running], ..RunFilter::default() };
    let page = store.list_runs(HERE, running, None, 10).await.unwrap();
    assert_eq!((page.runs.len(), page.next, page.scanned), (2, None, 2));
    // Runs are found by a tag without others; but a tag may have many runs, too.
    let by_tag = |is: &str| RunFilter { tags: vec![("is".to_owned(), is.to_owned())], ..RunFilter::default() };
    let page = store.list_runs(HERE, by_tag("old"), None, 10).await.unwrap();
    assert_eq!((page.runs.len(), page.next, page.scanned), (2, None, 2));
    let page = store.list_runs(HERE, RunFilter { version: Some(2), ..by_tag("new") }, None, 10).await.unwrap();
    assert_eq!((page.runs, page.next, page.scanned), (vec![], Some((at(2), items[2].run)), 10_000));
    // A page that is full earlier is not longer because of it.
    let page = store.list_runs(HERE, input(&["n"], "9999"), None, 1).await.unwrap();
    assert_eq!(page.runs[0].id, items[9_999].run);
    assert_eq!(page.next, Some((at(2), items[2].run)));
    // A filter without conditions does not exceed the number of examined runs either.
    let page = store.list_runs(HERE, RunFilter::default(), None, usize::MAX).await.unwrap();
    assert_eq!((page.runs.len(), page.next), (10_000, Some((at(2), items[2].run))));
}

pub async fn runs_are_found_by_their_key_origin_error_and_id(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let keyed = |scope: &str, key: &str| NewRun { key: Some((scope.to_owned(), key.to_owned())), ..new() };
    let first = started(&*store, node, keyed("orders", "k")).await;
    let second = started(&*store, node, keyed("", "k")).await;
    let third = started(&*store, node, keyed("orders", "other")).await;
    let by_key = |key: &str| RunFilter { key: Some(key.to_owned()), ..RunFilter::default() };
    assert_eq!(list(&*store, by_key("k")).await, [first, second]);
    assert_eq!(list(&*store, by_key("other")).await, [third]);
    assert_eq!(list(&*store, by_key("none")).await, []);
    assert_eq!(list(&*store, RunFilter { workflow: Some("invoices".to_owned()), ..by_key("k") }).await, []);
    let page = store.list_runs(HERE, by_key("k"), None, 1).await.unwrap();
    assert_eq!(page.runs[0].id, second);
    assert_eq!(store.list_runs(HERE, by_key("k"), page.next, 1).await.unwrap().runs[0].id, first);

    let fork = new_run();
    store.fork_run(HERE, first, NewFork::new(fork, 1, at(1))).await.unwrap();
    let by_origin = |origin| RunFilter { origin: Some(origin), ..RunFilter::default() };
    assert_eq!(list(&*store, by_origin(first)).await, [fork]);
    assert_eq!(list(&*store, by_origin(fork)).await, []);
    // Runs that are no forks of it are not examined.
    assert_eq!(store.list_runs(HERE, by_origin(first), None, 10).await.unwrap().scanned, 1);
    assert_eq!(list(&*store, RunFilter { workflow: Some("invoices".to_owned()), ..by_origin(first) }).await, []);
    assert_eq!(store.list_runs(new_workspace(), by_origin(first), None, 10).await.unwrap().runs, []);

    let failed = fail(second, 2, "PAYMENT_REFUSED");
    apply(&*store, node, &failed).await;
    let by_code = |code: &str| RunFilter { error_code: Some(code.to_owned()), ..RunFilter::default() };
    assert_eq!(list(&*store, by_code("PAYMENT_REFUSED")).await, [second]);
    assert_eq!(list(&*store, by_code("PAYMENT")).await, []);

    let by_ids =
        |from: RunId, until: RunId| RunFilter { ids: Some((from.uuid(), until.uuid())), ..RunFilter::default() };
    assert_eq!(list(&*store, by_ids(first, first)).await, [first]);
    let (least, most) = (first.min(third), first.max(third));
    assert!(list(&*store, by_ids(least, most)).await.contains(&third));
    assert_eq!(list(&*store, RunFilter { key: Some("k".to_owned()), ..by_ids(first, first) }).await, [first]);
    for filter in [by_key("k"), by_ids(first, first)] {
        assert_eq!(list(&*store, RunFilter { parent: Some(second), ..filter }).await, []);
    }
    assert_eq!(list(&*store, RunFilter { error_code: Some("X".to_owned()), ..by_ids(least, most) }).await, []);
}

/// An item with which a run fails.
fn fail(run: RunId, seq: u64, code: &str) -> Item {
    let item = end(run, seq, at(1));
    let error = Some(Failure::fatal(code, "it was refused"));
    let projection = item.projection.map(|projection| Projection { status: Status::Failed, error, ..projection });
    Item { projection, ..item }
}
