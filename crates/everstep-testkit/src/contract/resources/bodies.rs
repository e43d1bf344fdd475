//! Resources: named bytes of a workspace, of three kinds.

use std::sync::Arc;

use everstep_store::{ResourceKind, ResourceRow, ResourceStore};

use crate::contract::fixtures::*;

fn resource(kind: ResourceKind, name: &str) -> ResourceRow {
    ResourceRow {
        workspace: HERE,
        kind,
        name: name.to_owned(),
        body: vec![0, 1, 2, 255],
        created_at: at(1),
        updated_at: at(1),
    }
}

async fn names(store: &dyn ResourceStore, kind: ResourceKind, after: Option<&str>, limit: usize) -> Vec<String> {
    store.resources(HERE, kind, after, limit).await.unwrap().into_iter().map(|resource| resource.name).collect()
}

pub async fn a_resource_is_found_by_workspace_kind_and_name(store: Arc<dyn ResourceStore>) {
    let secret = resource(ResourceKind::Secret, "token ✓'\"%");
    assert!(store.put_resource(&secret).await.unwrap());
    assert_eq!(store.resource(HERE, ResourceKind::Secret, &secret.name).await.unwrap(), Some(secret.clone()));
    assert_eq!(store.resource(HERE, ResourceKind::Source, &secret.name).await.unwrap(), None);
    assert_eq!(store.resource(HERE, ResourceKind::Secret, "token").await.unwrap(), None);
    assert_eq!(store.resource(new_workspace(), ResourceKind::Secret, &secret.name).await.unwrap(), None);
}

pub async fn a_resource_is_replaced_and_keeps_its_beginning(store: Arc<dyn ResourceStore>) {
    let first = resource(ResourceKind::Query, "orders");
    let second = ResourceRow { body: vec![], created_at: at(9), updated_at: at(9), ..first.clone() };
    assert!(store.put_resource(&first).await.unwrap());
    assert!(!store.put_resource(&second).await.unwrap());
    let expected = ResourceRow { created_at: at(1), ..second };
    assert_eq!(store.resource(HERE, ResourceKind::Query, "orders").await.unwrap(), Some(expected));
    // The same name with another kind or workspace is another resource.
    assert!(store.put_resource(&resource(ResourceKind::Source, "orders")).await.unwrap());
    assert!(store.put_resource(&ResourceRow { workspace: new_workspace(), ..first }).await.unwrap());
}

pub async fn resources_are_listed_by_name_in_pages(store: Arc<dyn ResourceStore>) {
    for name in ["b", "é", "a", "B", "c"] {
        store.put_resource(&resource(ResourceKind::Source, name)).await.unwrap();
    }
    store.put_resource(&resource(ResourceKind::Secret, "bb")).await.unwrap();
    store
        .put_resource(&ResourceRow { workspace: new_workspace(), ..resource(ResourceKind::Source, "bc") })
        .await
        .unwrap();
    assert_eq!(names(&*store, ResourceKind::Source, None, 2).await, ["B", "a"]);
    assert_eq!(names(&*store, ResourceKind::Source, Some("a"), 2).await, ["b", "c"]);
    assert_eq!(names(&*store, ResourceKind::Source, Some("c"), 2).await, ["é"]);
    assert_eq!(names(&*store, ResourceKind::Secret, None, usize::MAX).await, ["bb"]);
}

pub async fn a_deleted_resource_is_gone(store: Arc<dyn ResourceStore>) {
    let secret = resource(ResourceKind::Secret, "token");
    store.put_resource(&secret).await.unwrap();
    assert!(!store.delete_resource(HERE, ResourceKind::Query, "token").await.unwrap());
    assert!(!store.delete_resource(new_workspace(), ResourceKind::Secret, "token").await.unwrap());
    assert!(store.delete_resource(HERE, ResourceKind::Secret, "token").await.unwrap());
    assert!(!store.delete_resource(HERE, ResourceKind::Secret, "token").await.unwrap());
    assert_eq!(store.resource(HERE, ResourceKind::Secret, "token").await.unwrap(), None);
    assert!(store.put_resource(&secret).await.unwrap());
}

pub async fn parallel_puts_leave_one_resource(store: Arc<dyn ResourceStore>) {
    let puts: Vec<_> = (0..10)
        .map(|number| {
            let store = store.clone();
            let row = ResourceRow { body: vec![number], ..resource(ResourceKind::Secret, "token") };
            tokio::spawn(async move { store.put_resource(&row).await.unwrap() })
        })
        .collect();
    let mut created = 0;
    for put in puts {
        created += usize::from(put.await.unwrap());
    }
    assert_eq!(created, 1);
    assert_eq!(names(&*store, ResourceKind::Secret, None, 10).await, ["token"]);
}
