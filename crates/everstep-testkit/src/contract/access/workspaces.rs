//! Workspaces: tenants, each with a name.

use std::sync::Arc;

use everstep_core::payload::Payload;
use everstep_store::{AccessStore, WorkspaceRow};
use serde_json::json;

use crate::contract::fixtures::*;

fn workspace(name: &str) -> WorkspaceRow {
    WorkspaceRow {
        id: new_workspace(),
        name: name.to_owned(),
        options: Payload::from(json!({ "fetch": true, "text": "ünïcode ✓" })),
        created_at: at(1),
    }
}

async fn names(store: &dyn AccessStore) -> Vec<String> {
    store.workspaces().await.unwrap().into_iter().map(|workspace| workspace.name).collect()
}

pub async fn there_is_always_a_default_workspace(store: Arc<dyn AccessStore>) {
    let workspaces = store.workspaces().await.unwrap();
    let [default] = &workspaces[..] else { panic!("{workspaces:?}") };
    assert_eq!((default.id, default.name.as_str(), default.options.json()), (HERE, "default", "{}"));
    assert!(default.created_at > at(-365 * 86_400), "{}", default.created_at);
}

pub async fn workspaces_are_listed_by_name(store: Arc<dyn AccessStore>) {
    let (one, two, three) = (workspace("zoo"), workspace("Zebra"), workspace("ähre"));
    for row in [&one, &two, &three] {
        assert!(store.add_workspace(row).await.unwrap());
    }
    // By their bytes, independent of the locale of the database.
    assert_eq!(names(&*store).await, ["Zebra", "default", "zoo", "ähre"]);
    assert_eq!(store.workspaces().await.unwrap()[2], one);
}

pub async fn a_workspace_s_name_and_id_are_its_own(store: Arc<dyn AccessStore>) {
    let first = workspace("zoo");
    assert!(store.add_workspace(&first).await.unwrap());
    assert!(!store.add_workspace(&first).await.unwrap());
    assert!(!store.add_workspace(&workspace("zoo")).await.unwrap());
    assert!(!store.add_workspace(&WorkspaceRow { id: first.id, ..workspace("other") }).await.unwrap());
    assert!(!store.add_workspace(&workspace("default")).await.unwrap());
    assert_eq!(names(&*store).await, ["default", "zoo"]);
}

pub async fn options_of_a_workspace_are_replaced(store: Arc<dyn AccessStore>) {
    let options = Payload::from(json!({ "fetch": false }));
    assert!(store.set_workspace_options(HERE, &options).await.unwrap());
    assert_eq!(store.workspaces().await.unwrap()[0].options, options);
    assert!(!store.set_workspace_options(new_workspace(), &options).await.unwrap());
}
