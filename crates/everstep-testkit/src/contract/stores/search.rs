//! Lists of runs by terms: tags, and the search attributes that workflows declare.

use std::sync::Arc;

use everstep_core::ids::{NodeId, RunId};
use everstep_core::payload::Payload;
use everstep_store::{
    EventSlice, ForkOrigin, NewFork, NewRun, NewWorkflow, Precondition, RunFilter, RunPage, RunStore, SliceOutcome,
    Stores,
};
use serde_json::{Value, json};

use crate::contract::fixtures::*;

/// Times before and after the clock of any database in a test.
const EARLIER_SECONDS: i64 = -1_500_000_000;
const LATER_SECONDS: i64 = 100_000_000_000;

/// A number in another notation than the usual one.
const LONG_NUMBER: &str = "100000000000000000000";

fn with_index(name: &str, text: &str, index: &[&str]) -> NewWorkflow {
    let definition = json!({"text": text, "options": {"index": index}});
    NewWorkflow { definition: Payload::from(definition), ..workflow(name, text) }
}

/// A run of a workflow that declares `customer` and `order.id`.
fn found_by(input: Value, seconds: i64) -> NewRun {
    let search_paths = Arc::from(["customer".to_owned(), "order.id".to_owned()]);
    NewRun { input: Payload::from(input), search_paths, created_at: at(seconds), ..new() }
}

async fn started(store: &dyn RunStore, node: NodeId, new: NewRun) -> RunId {
    let run = new_run();
    apply(store, node, &start_with(run, Some(node), new)).await;
    run
}

fn by_input(workflow: Option<&str>, path: &str, text: &str) -> RunFilter {
    let path = path.split('.').map(str::to_owned).collect();
    let workflow = workflow.map(str::to_owned);
    RunFilter { workflow, input: vec![(path, text.to_owned())], ..RunFilter::default() }
}

fn by_tag(name: &str, text: &str) -> RunFilter {
    RunFilter { tags: vec![(name.to_owned(), text.to_owned())], ..RunFilter::default() }
}

fn ids(page: &RunPage) -> Vec<RunId> {
    page.runs.iter().rev().map(|run| run.id).collect()
}

/// The runs that a filter finds, oldest first, and how many were examined for them.
async fn find(stores: &Stores, filter: RunFilter) -> (Vec<RunId>, usize) {
    let page = stores.runs.list_runs(HERE, filter, None, 100).await.unwrap();
    assert_eq!(page.next, None);
    (ids(&page), page.scanned)
}

pub async fn runs_are_found_by_search_attributes_without_others(stores: Stores) {
    let (store, node) = (&*stores.runs, member(&*stores.runs).await);
    put_workflow(&*stores.workflows, with_index("orders", "one", &["customer", "order.id"]), true).await.unwrap();
    for n in 0..20 {
        started(store, node, found_by(json!({"customer": "other", "order": {"id": 1_000 + n}}), n)).await;
    }
    let number = started(store, node, found_by(json!({"customer": "ann", "order": {"id": 42}}), 30)).await;
    let float = started(store, node, found_by(json!({"customer": "bob", "order": {"id": 42.0}}), 31)).await;
    let text = started(store, node, found_by(json!({"customer": "ann", "order": {"id": "42"}}), 32)).await;
    let odd = started(store, node, found_by(json!({"customer": null, "order": {"id": "4.2e1"}}), 33)).await;
    let long = started(store, node, found_by(json!({"customer": "x".repeat(5_000), "order": {"id": [42]}}), 34)).await;
    started(store, node, NewRun { is_test: true, ..found_by(json!({"customer": "ann"}), 35) }).await;
    let orders = Some("orders");
    assert_eq!(find(&stores, by_input(orders, "customer", "ann")).await, (vec![number, text], 2));
    assert_eq!(find(&stores, by_input(None, "customer", "ann")).await, (vec![number, text], 2));
    assert_eq!(find(&stores, by_input(orders, "order.id", "42")).await, (vec![number, float, text], 3));
    // A term may stand for other values; they are compared.
    assert_eq!(find(&stores, by_input(orders, "order.id", "4.2e1")).await, (vec![number, float, odd], 4));
    assert_eq!(find(&stores, by_input(orders, "customer", "null")).await, (vec![odd], 1));
    assert_eq!(find(&stores, by_input(orders, "customer", &"x".repeat(5_000))).await, (vec![long], 1));
    assert_eq!(find(&stores, by_input(orders, "customer", "carl")).await, (vec![], 0));
    assert_eq!(find(&stores, by_input(Some("invoices"), "customer", "ann")).await, (vec![], 0));
    let page = stores.runs.list_runs(new_workspace(), by_input(orders, "customer", "ann"), None, 10).await.unwrap();
    assert_eq!(page.runs, []);
    // Other conditions are applied to the runs that were found.
    let mut both = by_input(orders, "customer", "ann");
    both.input.extend(by_input(orders, "order.id", "42").input);
    both.since = Some(at(31));
    assert_eq!(find(&stores, both).await, (vec![text], 1));
    let other_version = RunFilter { version: Some(2), ..by_input(orders, "customer", "ann") };
    assert_eq!(find(&stores, other_version).await, (vec![], 2));
    // A path that is not declared is looked for in every run.
    let (found, scanned) = find(&stores, by_input(orders, "order.missing", "1")).await;
    assert_eq!((found, scanned), (vec![], 25));
}

pub async fn pages_by_terms_are_complete_and_in_order(stores: Stores) {
    let (store, node) = (&*stores.runs, member(&*stores.runs).await);
    put_workflow(&*stores.workflows, with_index("orders", "one", &["customer"]), true).await.unwrap();
    let mut expected = vec![];
    for n in 0..11 {
        // The number and the text have different terms, and are one list.
        let customer = if n % 2 == 0 { json!(1e20) } else { json!(LONG_NUMBER) };
        expected.push((n / 3, started(store, node, found_by(json!({"customer": customer}), n / 3)).await));
        started(store, node, found_by(json!({"customer": n}), n / 3)).await;
    }
    expected.sort_unstable();
    let expected: Vec<_> = expected.into_iter().rev().map(|(_, run)| run).collect();
    let (mut seen, mut after) = (vec![], None);
    loop {
        let page = store.list_runs(HERE, by_input(Some("orders"), "customer", LONG_NUMBER), after, 3).await.unwrap();
        seen.extend(page.runs.iter().map(|run| run.id));
        started(store, node, found_by(json!({"customer": LONG_NUMBER}), 9)).await;
        let Some(next) = page.next else { break };
        assert_eq!(page.runs.len(), 3);
        after = Some(next);
    }
    assert_eq!(seen, expected);
}

pub async fn runs_from_before_an_attribute_was_declared_are_found_too(stores: Stores) {
    let (store, node) = (&*stores.runs, member(&*stores.runs).await);
    put_workflow(&*stores.workflows, workflow("orders", "one"), true).await.unwrap();
    let without = |customer: &str, seconds| NewRun {
        search_paths: Arc::default(),
        ..found_by(json!({"customer": customer}), seconds)
    };
    let old = started(store, node, without("ann", EARLIER_SECONDS)).await;
    started(store, node, without("bob", EARLIER_SECONDS + 1)).await;
    put_workflow(&*stores.workflows, with_index("orders", "two", &["customer"]), true).await.unwrap();
    let new = started(store, node, found_by(json!({"customer": "ann"}), LATER_SECONDS)).await;
    started(store, node, found_by(json!({"customer": "bob"}), LATER_SECONDS + 1)).await;
    let anns = || by_input(Some("orders"), "customer", "ann");
    // One by its term, and two runs without terms were examined.
    assert_eq!(find(&stores, anns()).await, (vec![old, new], 3));
    let first = store.list_runs(HERE, anns(), None, 1).await.unwrap();
    assert_eq!(ids(&first), [new]);
    let second = store.list_runs(HERE, anns(), first.next, 1).await.unwrap();
    assert_eq!((ids(&second), second.next), (vec![old], None));
    let until = RunFilter { until: Some(at(LATER_SECONDS)), ..anns() };
    assert_eq!(find(&stores, until).await.0, [old]);
    let since = RunFilter { since: Some(at(LATER_SECONDS)), ..anns() };
    assert_eq!(find(&stores, since).await, (vec![new], 1));
    // A workflow that does not declare the attribute has runs too: all runs are examined.
    let other = NewRun { workflow: "invoices".to_owned(), ..without("ann", EARLIER_SECONDS + 2) };
    let other = started(store, node, other).await;
    assert_eq!(find(&stores, by_input(None, "customer", "ann")).await, (vec![old, other, new], 5));
}

pub async fn search_attributes_are_those_of_the_active_version(stores: Stores) {
    let workflows = &*stores.workflows;
    let paths = async |version| workflows.workflow(HERE, "orders", version).await.unwrap().unwrap().search_paths;
    put_workflow(workflows, with_index("orders", "one", &["customer", "a.b"]), true).await.unwrap();
    assert_eq!(paths(None).await, ["a.b", "customer"]);
    put_workflow(workflows, with_index("orders", "two", &["customer", "c"]), false).await.unwrap();
    assert_eq!(paths(None).await, ["a.b", "customer"]);
    assert!(activate_workflow(workflows, HERE, "orders", 2).await.unwrap());
    assert_eq!(paths(None).await, ["c", "customer"]);
    // They apply to the starts of every version.
    assert_eq!(paths(Some(1)).await, ["c", "customer"]);
    workflows.choose_version(HERE, "orders", None, Precondition::Anything, None).await.unwrap();
    assert_eq!(paths(Some(1)).await, [""; 0]);
    assert!(activate_workflow(workflows, HERE, "orders", 1).await.unwrap());
    assert_eq!(paths(None).await, ["a.b", "customer"]);
    workflows.delete_workflow(HERE, "orders").await.unwrap();
    put_workflow(workflows, workflow("orders", "three"), true).await.unwrap();
    assert_eq!(paths(None).await, [""; 0]);
    // The last registration of a version of code counts.
    let code = |text: &str, index| NewWorkflow { style: "code".to_owned(), ..with_index("served", text, index) };
    let served = async || workflows.workflow(HERE, "served", None).await.unwrap().unwrap().search_paths;
    workflows.register_workflows(vec![(code("one", &["a"]), 1)]).await.unwrap();
    assert_eq!(served().await, ["a"]);
    workflows.register_workflows(vec![(code("two", &["b"]), 1)]).await.unwrap();
    assert_eq!(served().await, ["b"]);
}

pub async fn an_attribute_that_returns_does_not_hide_runs(stores: Stores) {
    let (store, node) = (&*stores.runs, member(&*stores.runs).await);
    let workflows = &*stores.workflows;
    put_workflow(workflows, with_index("orders", "one", &["customer"]), true).await.unwrap();
    put_workflow(workflows, workflow("orders", "two"), true).await.unwrap();
    // Started while no attribute was declared.
    let between = NewRun { search_paths: Arc::default(), ..found_by(json!({"customer": "ann"}), EARLIER_SECONDS) };
    let between = started(store, node, between).await;
    assert!(activate_workflow(workflows, HERE, "orders", 1).await.unwrap());
    assert_eq!(find(&stores, by_input(Some("orders"), "customer", "ann")).await.0, [between]);
}

pub async fn a_run_on_its_way_while_an_attribute_is_declared_is_found(stores: Stores) {
    let (store, node) = (&*stores.runs, member(&*stores.runs).await);
    let workflows = &*stores.workflows;
    let without = |name: &str| NewRun {
        workflow: name.to_owned(),
        search_paths: Arc::default(),
        ..found_by(json!({"customer": "ann"}), EARLIER_SECONDS)
    };
    let declaring = |name: &str| NewWorkflow { style: "code".to_owned(), ..with_index(name, "one", &["customer"]) };
    // A client names the version, and a worker registers it before the run of the client is written.
    let named = NewWorkflow { digest: String::new(), ..workflow("named", "one") };
    let named = NewWorkflow { style: "code".to_owned(), definition: Payload::from(json!({})), ..named };
    workflows.register_workflows(vec![(named, 1)]).await.unwrap();
    workflows.register_workflows(vec![(declaring("named"), 1)]).await.unwrap();
    // A worker of the same version declares another attribute.
    let other = NewWorkflow { style: "code".to_owned(), ..with_index("changed", "two", &["order.id"]) };
    workflows.register_workflows(vec![(other, 1)]).await.unwrap();
    workflows.register_workflows(vec![(declaring("changed"), 1)]).await.unwrap();
    // A start names a version that is not active yet.
    put_workflow(workflows, with_index("saved", "one", &["customer"]), false).await.unwrap();
    assert!(activate_workflow(workflows, HERE, "saved", 1).await.unwrap());
    for name in ["named", "changed", "saved"] {
        let run = started(store, node, without(name)).await;
        assert_eq!(find(&stores, by_input(Some(name), "customer", "ann")).await.0, [run], "{name}");
    }
}

pub async fn terms_exist_with_their_run(stores: Stores) {
    let (store, node) = (&*stores.runs, member(&*stores.runs).await);
    put_workflow(&*stores.workflows, with_index("orders", "one", &["customer"]), true).await.unwrap();
    let tagged = |new: NewRun| NewRun { tags: Payload::from(json!({"team": "blue", "customer": "ann"})), ..new };
    let keyed = || NewRun {
        key: Some(("orders".to_owned(), "k".to_owned())),
        retention_days: 1,
        ..tagged(found_by(json!({"customer": "ann"}), 1))
    };
    let item = start_with(new_run(), Some(node), keyed());
    let run = item.run;
    apply(store, node, &item).await;
    // Neither the same start again nor a start with a known key writes terms.
    commit(store, node, &item).await;
    commit(store, node, &start_with(new_run(), Some(node), keyed())).await;
    assert_eq!(find(&stores, by_tag("team", "blue")).await, (vec![run], 1));
    assert_eq!(find(&stores, by_tag("customer", "ann")).await, (vec![run], 1));
    let orders = Some("orders");
    assert_eq!(find(&stores, by_input(orders, "customer", "ann")).await, (vec![run], 1));
    // A fork has the terms of the input and the tags of its original, also if the original has none.
    let fork = new_run();
    let new = keyed();
    let origin = ForkOrigin {
        workflow: new.workflow,
        input: new.input,
        tags: new.tags,
        search_paths: new.search_paths,
        is_test: false,
    };
    store.fork_run(HERE, run, NewFork { origin, ..NewFork::new(fork, 1, at(9)) }).await.unwrap().unwrap();
    assert_eq!(find(&stores, by_tag("team", "blue")).await, (vec![run, fork], 2));
    assert_eq!(find(&stores, by_input(orders, "customer", "ann")).await, (vec![run, fork], 2));
    // They are deleted with their run.
    apply(store, node, &end(run, 2, at(10))).await;
    assert_eq!(store.sweep(at(1_000_000), 10).await.unwrap(), 1);
    assert_eq!(find(&stores, by_tag("team", "blue")).await, (vec![fork], 1));
    assert_eq!(find(&stores, by_input(orders, "customer", "ann")).await, (vec![fork], 1));
}

pub async fn runs_that_events_start_have_terms(stores: Stores) {
    let node = member(&*stores.runs).await;
    put_workflow(&*stores.workflows, with_index("orders", "one", &["customer"]), true).await.unwrap();
    let event = topic_event("user.signup", json!({"customer": "ann"}), 0);
    published(&*stores.topics, &event).await;
    let mut start = start_row(&event, &subscription("#", 0), None);
    start.new.search_paths = Arc::from(["customer".to_owned()]);
    let run = start.run;
    let written = EventSlice { starts: vec![start], ..slice(&event) };
    assert!(matches!(fan_out(&*stores.topics, node, &written).await, SliceOutcome::Written { .. }));
    assert_eq!(fan_out(&*stores.topics, node, &written).await, SliceOutcome::Stale);
    assert_eq!(find(&stores, by_input(Some("orders"), "customer", "ann")).await, (vec![run], 1));
}
