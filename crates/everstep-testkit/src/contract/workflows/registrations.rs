//! Registration of versions whose numbers their author has chosen: those of code workflows.

use std::sync::Arc;

use everstep_core::limits;
use everstep_core::payload::Payload;
use everstep_store::{
    Deletion, Error, NewRun, NewWorkflow, Precondition, RegistrationOutcome, SaveOutcome, Stores, WorkflowRow,
    WorkflowStore,
};
use serde_json::json;

use super::deletions::{DAY, clock, versions};
use crate::contract::fixtures::*;
use crate::contract::stores::texts::is_refused;

fn code(name: &str) -> NewWorkflow {
    NewWorkflow { style: "code".to_owned(), definition: Payload::from(json!({})), ..workflow(name, "code") }
}

async fn register(store: &dyn WorkflowStore, name: &str, version: u32) -> RegistrationOutcome {
    let mut answers = store.register_workflows(vec![(code(name), version)]).await.unwrap();
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

fn other(style: &str) -> RegistrationOutcome {
    RegistrationOutcome::OtherStyle(style.to_owned())
}

pub async fn a_version_is_registered_under_its_own_number(store: Arc<dyn WorkflowStore>) {
    assert_eq!(register(&*store, "orders", 4).await, RegistrationOutcome::Registered);
    let expected = WorkflowRow {
        workspace: HERE,
        name: "orders".to_owned(),
        version: 4,
        style: "code".to_owned(),
        definition: Payload::from(json!({})),
        digest: code("orders").digest,
        retention_days: 7,
        created_at: at(0),
        publisher: None,
        search_paths: Vec::new(),
        is_deleted: false,
    };
    assert_eq!(store.workflow(HERE, "orders", None).await.unwrap(), Some(expected.clone()));
    // A repeated registration changes nothing, at any time.
    let again = NewWorkflow { created_at: at(9), ..code("orders") };
    assert_eq!(store.register_workflows(vec![(again, 4)]).await.unwrap(), [RegistrationOutcome::Registered]);
    assert_eq!(store.workflow(HERE, "orders", Some(4)).await.unwrap(), Some(expected));
    assert_eq!(versions(&*store, "orders").await, [4]);
    let nothing: Vec<RegistrationOutcome> = store.register_workflows(vec![]).await.unwrap();
    assert_eq!(nothing, []);
    assert!(store.register_workflows(vec![(code("orders"), 0)]).await.is_err());
    assert_eq!(versions(&*store, "orders").await, [4]);
}

pub async fn the_newest_registered_version_is_the_active_one(store: Arc<dyn WorkflowStore>) {
    for (version, newest) in [(2, 2), (1, 2), (7, 7), (3, 7), (2, 7)] {
        register(&*store, "orders", version).await;
        assert_eq!(active(&*store, "orders").await, Some(newest));
    }
    assert_eq!(versions(&*store, "orders").await, [7, 3, 2, 1]);
}

pub async fn a_chosen_version_stays_active_until_a_newer_one_comes(store: Arc<dyn WorkflowStore>) {
    for version in [1, 3] {
        register(&*store, "orders", version).await;
    }
    assert!(activate_workflow(&*store, HERE, "orders", 1).await.unwrap());
    // Existing versions are registered again, also with another retention; and one that is older than the newest.
    let longer = NewWorkflow { retention_days: 90, ..code("orders") };
    for (workflow, version) in [(code("orders"), 1), (code("orders"), 3), (longer, 3), (code("orders"), 2)] {
        store.register_workflows(vec![(workflow, version)]).await.unwrap();
        assert_eq!(active(&*store, "orders").await, Some(1), "{version}");
    }
    register(&*store, "orders", 4).await;
    assert_eq!(active(&*store, "orders").await, Some(4));
}

pub async fn a_version_that_was_only_named_is_not_active_until_it_is_brought(store: Arc<dyn WorkflowStore>) {
    let name = async |version| {
        let named = NewWorkflow { digest: String::new(), retention_days: 30, ..code("orders") };
        assert_eq!(store.register_workflows(vec![(named, version)]).await.unwrap(), [RegistrationOutcome::Registered]);
    };
    name(7).await;
    assert_eq!((active(&*store, "orders").await, versions(&*store, "orders").await), (None, vec![7]));
    // Where no version is named it is the first, which is found like any other from then on.
    name(1).await;
    assert_eq!(active(&*store, "orders").await, Some(1));
    register(&*store, "orders", 1).await;
    assert_eq!(active(&*store, "orders").await, Some(1));
    // The newest version is only named, but a worker has registered another: the name is taken.
    is_refused(&put_workflow(&*store, workflow("orders", "one"), true).await);
    name(9).await;
    name(7).await;
    assert_eq!(active(&*store, "orders").await, Some(1));
    // The first registration with a definition makes it the newest version, and sets its retention.
    register(&*store, "orders", 7).await;
    assert_eq!(active(&*store, "orders").await, Some(7));
    name(7).await;
    let row = store.workflow(HERE, "orders", Some(7)).await.unwrap().unwrap();
    assert_eq!((row.retention_days, row.digest), (7, code("orders").digest));
    assert!(activate_workflow(&*store, HERE, "orders", 1).await.unwrap());
    register(&*store, "orders", 7).await;
    assert_eq!(active(&*store, "orders").await, Some(1));
    register(&*store, "orders", 8).await;
    assert_eq!((active(&*store, "orders").await, versions(&*store, "orders").await), (Some(8), vec![9, 8, 7, 1]));
}

pub async fn a_drawing_replaces_a_name_that_starts_alone_have_created(stores: Stores) {
    let store = &*stores.workflows;
    let named = |name: &str| NewWorkflow { digest: String::new(), ..code(name) };
    let saved = |version, is_first| SaveOutcome::Saved { version, is_new: true, is_first };
    // A run that waits for a worker refers to it.
    for version in [1, 3] {
        store.register_workflows(vec![(named("orders"), version)]).await.unwrap();
    }
    let node = member(&*stores.runs).await;
    let run = new_run();
    apply(&*stores.runs, node, &start_with(run, Some(node), NewRun { version: 3, ..new() })).await;
    let unexpected = store.save_workflow(workflow("orders", "one"), true, Precondition::Active(7)).await.unwrap();
    assert_eq!(unexpected, SaveOutcome::Unexpected { active: 1 });
    assert_eq!((active(store, "orders").await, versions(store, "orders").await), (Some(1), vec![3, 1]));
    let put = store.save_workflow(workflow("orders", "one"), true, Precondition::Nothing).await.unwrap();
    assert_eq!(put, saved(4, true));
    assert_eq!((active(store, "orders").await, versions(store, "orders").await), (Some(4), vec![4]));
    assert_eq!(register(store, "orders", 1).await, other("graph"));
    assert_eq!(put_workflow(store, workflow("orders", "two"), true).await.unwrap(), (5, true));
    // The precondition may be the state that a caller has read; the version need not become active.
    for (name, precondition) in [("a", Precondition::Active(1)), ("b", Precondition::Active(0))] {
        store.register_workflows(vec![(named(name), 1)]).await.unwrap();
        let put = store.save_workflow(workflow(name, "one"), false, precondition).await.unwrap();
        assert_eq!(put, saved(2, true));
        assert_eq!((active(store, name).await, versions(store, name).await), (None, vec![2]));
    }
}

pub async fn the_last_word_on_a_version_s_retention_counts(store: Arc<dyn WorkflowStore>) {
    register(&*store, "orders", 1).await;
    register(&*store, "orders", 2).await;
    let longer = NewWorkflow { retention_days: 90, ..code("orders") };
    store.register_workflows(vec![(longer, 1)]).await.unwrap();
    let rows = store.list_versions(HERE, "orders", None, 10).await.unwrap();
    let rows: Vec<_> = rows.into_iter().map(|row| (row.version, row.retention_days, row.digest)).collect();
    let digest = code("orders").digest;
    assert_eq!(rows, [(2, 7, digest.clone()), (1, 90, digest)]);
    assert_eq!(active(&*store, "orders").await, Some(2));
}

pub async fn the_last_registration_decides_the_definition(store: Arc<dyn WorkflowStore>) {
    register(&*store, "orders", 1).await;
    register(&*store, "orders", 2).await;
    assert!(activate_workflow(&*store, HERE, "orders", 1).await.unwrap());
    let definition = Payload::from(json!({"inputSchema": {"type": "object"}}));
    let changed = NewWorkflow {
        definition: definition.clone(),
        digest: "another".to_owned(),
        created_at: at(9),
        ..code("orders")
    };
    let find = async |version| {
        let row = store.workflow(HERE, "orders", Some(version)).await.unwrap().unwrap();
        (row.definition, row.digest, row.created_at)
    };
    for _ in 0..2 {
        let answers = store.register_workflows(vec![(changed.clone(), 2)]).await.unwrap();
        assert_eq!(answers, [RegistrationOutcome::Registered]);
        // The version is the same one: it does not become active again, and keeps the time of its first registration.
        assert_eq!(find(2).await, (definition.clone(), "another".to_owned(), at(0)));
        assert_eq!(active(&*store, "orders").await, Some(1));
    }
    // To name a version changes nothing of it.
    let named = NewWorkflow { digest: String::new(), ..code("orders") };
    store.register_workflows(vec![(named, 2)]).await.unwrap();
    assert_eq!(find(2).await, (definition, "another".to_owned(), at(0)));
    assert_eq!(find(1).await, (Payload::from(json!({})), code("orders").digest, at(0)));
    register(&*store, "orders", 2).await;
    assert_eq!(find(2).await, (Payload::from(json!({})), code("orders").digest, at(0)));
}

pub async fn workflows_have_the_quota_of_the_workspace(store: Arc<dyn WorkflowStore>) {
    put_workflow(&*store, workflow("graph", "one"), true).await.unwrap();
    let names: Vec<_> = (2..limits::WORKFLOWS).map(|number| (code(&format!("code-{number}")), 1)).collect();
    // As many in one call as a worker may register.
    for names in names.chunks(1_000) {
        store.register_workflows(names.to_vec()).await.unwrap();
    }
    assert_eq!(store.count_workflows(HERE).await.unwrap(), limits::WORKFLOWS as u64 - 1);
    let is_full = |error| matches!(error, Error::WorkflowQuotaReached(count) if count == limits::WORKFLOWS as u64);
    // Nothing of a list that does not fit is written.
    assert!(is_full(store.register_workflows(vec![(code("a"), 1), (code("b"), 1)]).await.unwrap_err()));
    assert_eq!(active(&*store, "a").await, None);
    assert_eq!(register(&*store, "a", 1).await, RegistrationOutcome::Registered);
    assert!(is_full(put_workflow(&*store, workflow("other", "one"), true).await.unwrap_err()));
    assert_eq!(store.delete_workflow(HERE, "code-3").await.unwrap(), Deletion::Deleted);
    put_workflow(&*store, workflow("other", "one"), true).await.unwrap();
    assert!(is_full(put_workflow(&*store, workflow("another", "one"), true).await.unwrap_err()));
    // Other versions of known names need no room, and another workspace has its own.
    put_workflow(&*store, workflow("graph", "two"), true).await.unwrap();
    assert_eq!(register(&*store, "a", 2).await, RegistrationOutcome::Registered);
    let elsewhere = NewWorkflow { workspace: new_workspace(), ..workflow("other", "one") };
    put_workflow(&*store, elsewhere, true).await.unwrap();
}

pub async fn many_versions_are_registered_in_one_call(store: Arc<dyn WorkflowStore>) {
    put_workflow(&*store, workflow("graph", "one"), true).await.unwrap();
    let elsewhere = new_workspace();
    let list = || {
        vec![
            (code("b"), 2),
            (code("graph"), 1),
            (code("a"), 1),
            (code("b"), 1),
            (code("b"), 2),
            (NewWorkflow { workspace: elsewhere, ..code("graph") }, 5),
        ]
    };
    let yes = || RegistrationOutcome::Registered;
    let refused = store.register_workflows(list()).await.unwrap();
    assert_eq!(refused, [yes(), other("graph"), yes(), yes(), yes(), yes()]);
    assert_eq!((active(&*store, "a").await, active(&*store, "b").await), (None, None));
    let list = || list().into_iter().filter(|(row, _)| row.workspace != HERE || row.name != "graph").collect();
    for _ in 0..2 {
        let answers = store.register_workflows(list()).await.unwrap();
        assert_eq!(answers, [yes(), yes(), yes(), yes(), yes()]);
        assert_eq!((active(&*store, "a").await, active(&*store, "b").await), (Some(1), Some(2)));
        assert_eq!(versions(&*store, "b").await, [2, 1]);
        let moved = store.workflow(elsewhere, "graph", None).await.unwrap().unwrap();
        assert_eq!((moved.version, moved.style.as_str()), (5, "code"));
    }
}

pub async fn code_has_versions_of_no_other_style(store: Arc<dyn WorkflowStore>) {
    put_workflow(&*store, workflow("drawn", "one"), false).await.unwrap();
    assert_eq!(register(&*store, "drawn", 2).await, other("graph"));
    assert_eq!(versions(&*store, "drawn").await, [1]);
    assert_eq!(active(&*store, "drawn").await, None);

    register(&*store, "written", 1).await;
    for precondition in [Precondition::Anything, Precondition::Nothing, Precondition::Active(1)] {
        let put = store.save_workflow(workflow("written", "one"), true, precondition).await.unwrap();
        assert_eq!(put, SaveOutcome::OtherStyle("code".to_owned()));
    }
    is_refused(&put_workflow(&*store, workflow("written", "one"), true).await);
    assert_eq!((active(&*store, "written").await, versions(&*store, "written").await), (Some(1), vec![1]));
}

pub async fn a_deleted_workflow_is_registered_again_under_any_number(stores: Stores) {
    for version in [1, 2, 3] {
        register(&*stores.workflows, "orders", version).await;
    }
    assert_eq!(stores.workflows.delete_workflow(HERE, "orders").await.unwrap(), Deletion::Deleted);
    for (version, left) in [(2, vec![2]), (1, vec![2, 1]), (5, vec![5, 2, 1])] {
        assert_eq!(register(&*stores.workflows, "orders", version).await, RegistrationOutcome::Registered);
        assert_eq!(active(&*stores.workflows, "orders").await, left.first().copied());
        assert_eq!(versions(&*stores.workflows, "orders").await, left);
    }
    // A version that exists again is not swept with the deleted ones.
    stores.runs.sweep(clock(&*stores.runs).await.plus(DAY * 3), 10).await.unwrap();
    assert_eq!(versions(&*stores.workflows, "orders").await, [5, 2, 1]);
    // The same again; then it is saved as a graph.
    assert_eq!(stores.workflows.delete_workflow(HERE, "orders").await.unwrap(), Deletion::Deleted);
    assert_eq!(put_workflow(&*stores.workflows, workflow("orders", "drawn"), true).await.unwrap(), (6, true));
    assert_eq!(register(&*stores.workflows, "orders", 1).await, other("graph"));
}

pub async fn a_deleted_workflow_of_another_style_leaves_the_numbers_that_no_run_refers_to(stores: Stores) {
    for text in ["one", "two", "three"] {
        put_workflow(&*stores.workflows, workflow("orders", text), true).await.unwrap();
    }
    // A run of version 2, which has ended.
    let node = member(&*stores.runs).await;
    let run = new_run();
    apply(&*stores.runs, node, &start_with(run, Some(node), NewRun { version: 2, ..new() })).await;
    apply(&*stores.runs, node, &end(run, 2, at(1))).await;
    assert_eq!(stores.workflows.delete_workflow(HERE, "orders").await.unwrap(), Deletion::Deleted);
    assert_eq!(register(&*stores.workflows, "orders", 1).await, other("graph"));
    assert_eq!(register(&*stores.workflows, "orders", 2).await, other("graph"));
    assert_eq!(active(&*stores.workflows, "orders").await, None);
    assert_eq!(register(&*stores.workflows, "orders", 3).await, RegistrationOutcome::Registered);
    assert_eq!(versions(&*stores.workflows, "orders").await, [3]);
    // The version that the run refers to is unchanged, until the run is deleted.
    let style = |row: Option<WorkflowRow>| row.map(|row| row.style);
    assert_eq!(style(stores.workflows.workflow(HERE, "orders", Some(2)).await.unwrap()).as_deref(), Some("graph"));
    stores.runs.sweep(at(10_001 * 86_400), 10).await.unwrap();
    assert_eq!(register(&*stores.workflows, "orders", 1).await, RegistrationOutcome::Registered);
    assert_eq!(versions(&*stores.workflows, "orders").await, [3, 1]);
    assert_eq!(style(stores.workflows.workflow(HERE, "orders", Some(2)).await.unwrap()), None);
}

pub async fn parallel_registrations_agree(store: Arc<dyn WorkflowStore>) {
    let names = ["a", "b", "c"];
    for round in 1..=5_u32 {
        let calls: Vec<_> = (0..6)
            .map(|call| {
                let store = store.clone();
                let mut list: Vec<_> = names.iter().map(|name| (code(name), round + call % 2)).collect();
                // Each in a different order.
                list.rotate_left(usize::try_from(call).unwrap() % names.len());
                tokio::spawn(async move { store.register_workflows(list).await.unwrap() })
            })
            .collect();
        for call in calls {
            assert_eq!(
                call.await.unwrap(),
                [RegistrationOutcome::Registered, RegistrationOutcome::Registered, RegistrationOutcome::Registered]
            );
        }
        for name in names {
            assert_eq!(active(&*store, name).await, Some(round + 1));
        }
    }
    assert_eq!(versions(&*store, "a").await, [6, 5, 4, 3, 2, 1]);
}

pub async fn of_a_drawing_and_code_with_one_name_one_is_there(store: Arc<dyn WorkflowStore>) {
    for round in 0..8 {
        let name = format!("orders {round}");
        let (drawn, written) = (workflow(&name, "one"), code(&name));
        let (here, there) = (store.clone(), store.clone());
        let save = tokio::spawn(async move { here.save_workflow(drawn, true, Precondition::Anything).await.unwrap() });
        let register = tokio::spawn(async move { there.register_workflows(vec![(written, 1)]).await.unwrap() });
        let (put, answers) = (save.await.unwrap(), register.await.unwrap());
        let style = store.workflow(HERE, &name, None).await.unwrap().unwrap().style;
        if style == "graph" {
            assert_eq!(put, SaveOutcome::Saved { version: 1, is_new: true, is_first: true });
            assert_eq!(answers, [other("graph")]);
        } else {
            assert_eq!(put, SaveOutcome::OtherStyle("code".to_owned()));
            assert_eq!(answers, [RegistrationOutcome::Registered]);
        }
        assert_eq!(versions(&*store, &name).await, [1]);
    }
}
