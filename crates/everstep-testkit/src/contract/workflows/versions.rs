//! Versions: immutable, one of them active.

use std::sync::Arc;

use everstep_core::actor::Actor;
use everstep_core::publisher::Publisher;
use everstep_store::{
    ActivationOutcome, ChangeKey, NewWorkflow, Precondition, SaveOutcome, Stores, VersionRow, WorkflowRow,
    WorkflowStore, WorkflowSummary,
};

use crate::contract::fixtures::*;

pub async fn a_workflow_is_saved_as_versions(store: Arc<dyn WorkflowStore>) {
    let (first, second) = (workflow("orders", "one"), workflow("orders", "two"));
    assert_eq!(put_workflow(&*store, first.clone(), true).await.unwrap(), (1, true));
    assert_eq!(put_workflow(&*store, second, true).await.unwrap(), (2, true));
    assert_eq!(put_workflow(&*store, workflow("invoices", "one"), true).await.unwrap(), (1, true));

    let expected = WorkflowRow {
        workspace: HERE,
        name: first.name,
        version: 1,
        style: first.style,
        definition: first.definition,
        digest: first.digest,
        retention_days: 7,
        created_at: at(0),
        publisher: None,
        search_paths: Vec::new(),
        is_deleted: false,
    };
    assert_eq!(store.workflow(HERE, "orders", Some(1)).await.unwrap(), Some(expected));
    assert_eq!(active(&*store, "orders").await, Some(2));
    assert_eq!(store.workflow(HERE, "orders", Some(3)).await.unwrap(), None);
    assert_eq!(store.workflow(HERE, "nothing", None).await.unwrap(), None);
    assert_eq!(store.workflow(new_workspace(), "orders", None).await.unwrap(), None);
}

pub async fn the_digest_of_the_newest_version_is_that_version(store: Arc<dyn WorkflowStore>) {
    put_workflow(&*store, workflow("orders", "one"), true).await.unwrap();
    assert_eq!(put_workflow(&*store, workflow("orders", "one"), true).await.unwrap(), (1, false));
    put_workflow(&*store, workflow("orders", "two"), true).await.unwrap();
    // An older definition becomes a new version.
    assert_eq!(put_workflow(&*store, workflow("orders", "one"), true).await.unwrap(), (3, true));
    assert_eq!(store.workflow(HERE, "orders", Some(4)).await.unwrap(), None);
}

pub async fn a_version_remembers_its_publisher(store: Arc<dyn WorkflowStore>) {
    let by = |key: &str, permissions: &[&str]| {
        let publisher = Publisher::new(Actor::key(key), Some(format!("name of {key}")), permissions.iter().copied());
        NewWorkflow { publisher: Some(publisher), ..workflow("orders", "one") }
    };
    let (read, manage) = (by("1", &["workflow:read"]), by("2", &["workflow:read", "workflow:manage"]));
    assert_eq!(put_workflow(&*store, read.clone(), true).await.unwrap(), (1, true));
    assert_eq!(store.workflow(HERE, "orders", Some(1)).await.unwrap().unwrap().publisher, read.publisher);
    // Another publisher with the same permissions changes nothing.
    assert_eq!(put_workflow(&*store, by("3", &["workflow:read"]), true).await.unwrap(), (1, false));
    assert_eq!(store.workflow(HERE, "orders", Some(1)).await.unwrap().unwrap().publisher, read.publisher);
    // The same definition with other permissions is another version.
    let repeated = store.save_workflow(manage.clone(), true, Precondition::NothingElse).await.unwrap();
    assert_eq!(repeated, SaveOutcome::Unexpected { active: 1 });
    assert_eq!(put_workflow(&*store, manage.clone(), true).await.unwrap(), (2, true));
    assert_eq!(store.workflow(HERE, "orders", None).await.unwrap().unwrap().publisher, manage.publisher);
    // A version without a publisher counts as one that may write.
    assert_eq!(put_workflow(&*store, workflow("orders", "one"), true).await.unwrap(), (3, true));
    assert_eq!(store.workflow(HERE, "orders", None).await.unwrap().unwrap().publisher, None);
    let default = NewWorkflow { publisher: Some(Publisher::default()), ..workflow("orders", "one") };
    assert_eq!(put_workflow(&*store, default, true).await.unwrap(), (3, false));
}

pub async fn the_active_version_changes_only_on_request(store: Arc<dyn WorkflowStore>) {
    put_workflow(&*store, workflow("orders", "one"), false).await.unwrap();
    assert_eq!(active(&*store, "orders").await, None);
    assert_eq!(put_workflow(&*store, workflow("orders", "one"), true).await.unwrap(), (1, false));
    assert_eq!(active(&*store, "orders").await, Some(1));
    put_workflow(&*store, workflow("orders", "two"), false).await.unwrap();
    assert_eq!(active(&*store, "orders").await, Some(1));
    put_workflow(&*store, workflow("orders", "two"), true).await.unwrap();
    assert_eq!(active(&*store, "orders").await, Some(2));
}

pub async fn parallel_saves_get_versions_of_their_own(store: Arc<dyn WorkflowStore>) {
    let saves: Vec<_> = (0..10)
        .map(|number| {
            let store = store.clone();
            let workflow = workflow("orders", &number.to_string());
            tokio::spawn(async move { put_workflow(&*store, workflow, true).await.unwrap() })
        })
        .collect();
    let mut versions = vec![];
    for save in saves {
        versions.push(save.await.unwrap());
    }
    versions.sort_unstable();
    assert_eq!(versions, (1..=10).map(|version| (version, true)).collect::<Vec<_>>());
    assert_eq!(active(&*store, "orders").await, Some(10));
}

pub async fn parallel_saves_never_set_the_active_version_back(store: Arc<dyn WorkflowStore>) {
    put_workflow(&*store, workflow("orders", "0"), true).await.unwrap();
    for round in 1..=20 {
        // One call saves the newest version again, the other a newer one.
        let saves = [round - 1, round].map(|text| {
            let store = store.clone();
            let workflow = workflow("orders", &text.to_string());
            tokio::spawn(async move { put_workflow(&*store, workflow, true).await.unwrap().0 })
        });
        let mut newest = 0;
        for save in saves {
            newest = newest.max(save.await.unwrap());
        }
        assert_eq!(active(&*store, "orders").await, Some(newest));
        let (version, _) = put_workflow(&*store, workflow("orders", &round.to_string()), true).await.unwrap();
        assert_eq!(active(&*store, "orders").await, Some(version));
    }
}

pub async fn an_older_version_can_be_made_active(store: Arc<dyn WorkflowStore>) {
    for text in ["one", "two", "three"] {
        put_workflow(&*store, workflow("orders", text), true).await.unwrap();
    }
    assert!(activate_workflow(&*store, HERE, "orders", 1).await.unwrap());
    assert_eq!(active(&*store, "orders").await, Some(1));
    for missing in [0, 4, u32::MAX] {
        assert!(!activate_workflow(&*store, HERE, "orders", missing).await.unwrap());
    }
    assert!(!activate_workflow(&*store, HERE, "invoices", 1).await.unwrap());
    assert!(!activate_workflow(&*store, new_workspace(), "orders", 2).await.unwrap());
    assert_eq!(active(&*store, "orders").await, Some(1));
    // Saving the newest again activates it again.
    assert_eq!(put_workflow(&*store, workflow("orders", "three"), true).await.unwrap(), (3, false));
    assert_eq!(active(&*store, "orders").await, Some(3));
}

pub async fn workflows_are_listed_by_name_in_pages(store: Arc<dyn WorkflowStore>) {
    for name in ["é", "a", "B", "c"] {
        put_workflow(&*store, workflow(name, "one"), name != "c").await.unwrap();
    }
    let machine = |text| NewWorkflow { style: "machine".to_owned(), ..workflow("b", text) };
    put_workflow(&*store, machine("one"), true).await.unwrap();
    put_workflow(&*store, NewWorkflow { created_at: at(9), ..machine("two") }, false).await.unwrap();
    let elsewhere = NewWorkflow { workspace: new_workspace(), ..workflow("aa", "one") };
    put_workflow(&*store, elsewhere, true).await.unwrap();
    let summary = |name: &str, active_version| WorkflowSummary {
        name: name.to_owned(),
        style: "graph".to_owned(),
        active_version,
        latest_version: 1,
        updated_at: at(0),
    };
    let b = WorkflowSummary { style: "machine".to_owned(), latest_version: 2, updated_at: at(9), ..summary("b", 1) };
    let page = |after: Option<&'static str>, limit| {
        let store = store.clone();
        async move { store.list_workflows(HERE, after, limit).await.unwrap() }
    };
    // By their bytes, independent of the locale of the database.
    assert_eq!(page(None, 2).await, [summary("B", 1), summary("a", 1)]);
    assert_eq!(page(Some("a"), 2).await, [b, summary("c", 0)]);
    assert_eq!(page(Some("c"), 2).await, [summary("é", 1)]);
    assert_eq!(page(Some("é"), 2).await, []);
    assert_eq!(page(None, usize::MAX).await.len(), 5);
}

pub async fn the_key_of_a_change_is_known_for_a_day(store: Arc<dyn WorkflowStore>) {
    const DAY: i64 = 86_400;
    let key = |text: &str, seconds| ChangeKey { key: text.to_owned(), digest: format!("d-{text}"), at: at(seconds) };
    let known = async |text: &str, seconds| {
        let change = store.keyed_change(HERE, "orders", text, at(seconds)).await.unwrap()?;
        assert_eq!(change.digest, format!("d-{text}"));
        Some(change.version)
    };
    let save = async |text: &str, key| {
        let workflow = NewWorkflow { key: Some(key), ..workflow("orders", text) };
        store.save_workflow(workflow, true, Precondition::Anything).await.unwrap()
    };
    let choose = async |version, precondition, key| {
        store.choose_version(HERE, "orders", version, precondition, Some(key)).await.unwrap()
    };
    assert_eq!(known("a", 1).await, None);
    save("one", key("a", 0)).await;
    save("two", key("b", 0)).await;
    // The newest version is not written again, and the key is known.
    save("two", key("c", 0)).await;
    assert_eq!((known("a", 1).await, known("b", 1).await, known("c", 1).await), (Some(1), Some(2), Some(2)));
    assert_eq!(choose(Some(1), Precondition::Anything, (key("d", 0), 1)).await, ActivationOutcome::Chosen);
    assert_eq!(choose(None, Precondition::Anything, (key("e", 0), 2)).await, ActivationOutcome::Chosen);
    assert_eq!((known("d", 1).await, known("e", 1).await), (Some(1), Some(2)));
    // A change that was not made has no key.
    choose(Some(1), Precondition::Active(7), (key("f", 0), 1)).await;
    choose(Some(9), Precondition::Anything, (key("f", 0), 9)).await;
    let unexpected = NewWorkflow { key: Some(key("f", 0)), ..workflow("orders", "three") };
    store.save_workflow(unexpected, true, Precondition::Nothing).await.unwrap();
    assert_eq!(known("f", 1).await, None);
    // Another workflow and another workspace have keys of their own.
    assert_eq!(store.keyed_change(HERE, "other", "a", at(1)).await.unwrap(), None);
    assert_eq!(store.keyed_change(new_workspace(), "orders", "a", at(1)).await.unwrap(), None);
    // After a day a key can be used again.
    assert_eq!((known("a", DAY).await, known("a", DAY + 1).await), (Some(1), None));
    save("three", key("a", DAY + 1)).await;
    assert_eq!(known("a", DAY + 2).await, Some(3));
}

pub async fn keys_of_changes_are_swept_after_a_day(stores: Stores) {
    const DAY: i64 = 86_400;
    let store = stores.workflows;
    let save = async |text: &str, seconds| {
        let key = ChangeKey { key: text.to_owned(), digest: "d".to_owned(), at: at(seconds) };
        let workflow = NewWorkflow { key: Some(key), ..workflow("orders", text) };
        store.save_workflow(workflow, true, Precondition::Anything).await.unwrap();
    };
    // The time of a look-up: no row is too old then.
    let stored = async |text: &str| store.keyed_change(HERE, "orders", text, at(0)).await.unwrap().is_some();
    for (text, seconds) in [("a", 0), ("b", 0), ("c", 1)] {
        save(text, seconds).await;
    }
    stores.runs.sweep(at(DAY), 10).await.unwrap();
    assert_eq!((stored("a").await, stored("b").await, stored("c").await), (true, true, true));
    stores.runs.sweep(at(DAY + 1), 10).await.unwrap();
    assert_eq!((stored("a").await, stored("b").await, stored("c").await), (false, false, true));
}

pub async fn versions_are_listed_newest_first_in_pages(store: Arc<dyn WorkflowStore>) {
    for (seconds, text) in [(1, "one"), (2, "two"), (3, "three")] {
        let workflow = NewWorkflow { created_at: at(seconds), retention_days: 9, ..workflow("orders", text) };
        put_workflow(&*store, workflow, text != "three").await.unwrap();
    }
    let version = |version: u32, text: &str, is_active| VersionRow {
        version,
        digest: format!("digest of {text}"),
        created_at: at(version.into()),
        retention_days: 9,
        is_active,
    };
    let page = |before, limit| {
        let store = store.clone();
        async move { store.list_versions(HERE, "orders", before, limit).await.unwrap() }
    };
    assert_eq!(page(None, 2).await, [version(3, "three", false), version(2, "two", true)]);
    assert_eq!(page(Some(2), 2).await, [version(1, "one", false)]);
    assert_eq!(page(Some(1), 2).await, []);
    assert_eq!(page(Some(u32::MAX), usize::MAX).await.len(), 3);
    assert_eq!(store.list_versions(HERE, "nothing", None, 10).await.unwrap(), []);
    assert_eq!(store.list_versions(new_workspace(), "orders", None, 10).await.unwrap(), []);
}

pub async fn a_workflow_that_is_not_as_expected_is_left_alone(store: Arc<dyn WorkflowStore>) {
    let save = async |text: &str, precondition: Precondition| {
        store.save_workflow(workflow("orders", text), true, precondition).await.unwrap()
    };
    let saved = |version, is_new, is_first| SaveOutcome::Saved { version, is_new, is_first };
    assert_eq!(save("one", Precondition::Active(1)).await, SaveOutcome::Unexpected { active: 0 });
    assert_eq!(save("one", Precondition::Nothing).await, saved(1, true, true));
    assert_eq!(save("one", Precondition::Nothing).await, SaveOutcome::Unexpected { active: 1 });
    assert_eq!(save("one", Precondition::NothingElse).await, saved(1, false, false));
    assert_eq!(save("two", Precondition::NothingElse).await, SaveOutcome::Unexpected { active: 1 });
    assert_eq!(save("two", Precondition::Active(2)).await, SaveOutcome::Unexpected { active: 1 });
    assert_eq!(save("two", Precondition::Active(1)).await, saved(2, true, false));
    assert_eq!(store.list_versions(HERE, "orders", None, 9).await.unwrap().len(), 2);

    let choose =
        async |version, precondition| store.choose_version(HERE, "orders", version, precondition, None).await.unwrap();
    assert_eq!(choose(Some(1), Precondition::Active(1)).await, ActivationOutcome::Unexpected { active: 2 });
    assert_eq!(choose(Some(1), Precondition::Active(2)).await, ActivationOutcome::Chosen);
    assert_eq!(choose(Some(3), Precondition::Anything).await, ActivationOutcome::NotFound);
    assert_eq!(active(&*store, "orders").await, Some(1));

    store.delete_workflow(HERE, "orders").await.unwrap();
    assert_eq!(save("three", Precondition::Active(1)).await, SaveOutcome::Unexpected { active: 0 });
    assert_eq!(save("three", Precondition::Nothing).await, saved(3, true, true));
}

pub async fn a_workflow_may_have_no_active_version(store: Arc<dyn WorkflowStore>) {
    put_workflow(&*store, workflow("orders", "one"), true).await.unwrap();
    put_workflow(&*store, workflow("orders", "two"), true).await.unwrap();
    put_workflow(&*store, workflow("invoices", "one"), true).await.unwrap();
    let choose =
        async |version, precondition| store.choose_version(HERE, "orders", version, precondition, None).await.unwrap();
    assert_eq!(choose(None, Precondition::Active(1)).await, ActivationOutcome::Unexpected { active: 2 });
    assert_eq!(active(&*store, "orders").await, Some(2));
    assert_eq!(choose(None, Precondition::Active(2)).await, ActivationOutcome::Chosen);
    assert_eq!((active(&*store, "orders").await, active(&*store, "invoices").await), (None, Some(1)));
    // Its versions are still there, and one of them may become active again.
    assert_eq!(choose(None, Precondition::Active(0)).await, ActivationOutcome::Chosen);
    assert!(store.workflow(HERE, "orders", Some(2)).await.unwrap().is_some());
    let versions = store.list_versions(HERE, "orders", None, 9).await.unwrap();
    assert_eq!(versions.iter().map(|row| (row.version, row.is_active)).collect::<Vec<_>>(), [(2, false), (1, false)]);
    let listed = store.list_workflows(HERE, None, 9).await.unwrap();
    assert_eq!(listed.iter().map(|row| row.active_version).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(choose(Some(1), Precondition::Active(0)).await, ActivationOutcome::Chosen);
    assert_eq!(active(&*store, "orders").await, Some(1));
    // A version that is saved without being activated does not become active.
    assert_eq!(choose(None, Precondition::Anything).await, ActivationOutcome::Chosen);
    put_workflow(&*store, workflow("orders", "three"), false).await.unwrap();
    assert_eq!(active(&*store, "orders").await, None);

    for (workspace, name) in [(HERE, "nothing"), (new_workspace(), "orders"), (HERE, "a\0b")] {
        let missing = store.choose_version(workspace, name, None, Precondition::Anything, None).await.unwrap();
        assert_eq!(missing, ActivationOutcome::NotFound);
    }
    store.delete_workflow(HERE, "orders").await.unwrap();
    assert_eq!(choose(None, Precondition::Anything).await, ActivationOutcome::NotFound);
}

pub async fn a_name_belongs_to_one_style(store: Arc<dyn WorkflowStore>) {
    let machine = || NewWorkflow { style: "machine".to_owned(), ..workflow("orders", "two") };
    put_workflow(&*store, workflow("orders", "one"), true).await.unwrap();
    let other = SaveOutcome::OtherStyle("graph".to_owned());
    for precondition in [Precondition::Anything, Precondition::Nothing, Precondition::Active(1)] {
        assert_eq!(store.save_workflow(machine(), true, precondition).await.unwrap(), other);
    }
    assert_eq!(store.list_versions(HERE, "orders", None, 9).await.unwrap().len(), 1);
    // A workflow that was deleted has left its name.
    store.delete_workflow(HERE, "orders").await.unwrap();
    assert_eq!(put_workflow(&*store, machine(), true).await.unwrap(), (2, true));
}

pub async fn of_many_calls_that_expect_nothing_one_saves(store: Arc<dyn WorkflowStore>) {
    let tasks: Vec<_> = (0..16)
        .map(|n| {
            let (store, workflow) = (Arc::clone(&store), workflow("orders", &n.to_string()));
            tokio::spawn(async move { store.save_workflow(workflow, true, Precondition::Nothing).await.unwrap() })
        })
        .collect();
    let mut saved = 0;
    for task in tasks {
        saved +=
            usize::from(matches!(task.await.unwrap(), SaveOutcome::Saved { version: 1, is_new: true, is_first: true }));
    }
    assert_eq!(saved, 1);
    assert_eq!(store.list_versions(HERE, "orders", None, 99).await.unwrap().len(), 1);
}
