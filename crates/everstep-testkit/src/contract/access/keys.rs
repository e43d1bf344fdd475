//! API keys: found by their hash, and the first of all added once.

use std::sync::Arc;

use everstep_store::{AccessStore, Error, KeyOutcome, KeyRow, Stores};

use crate::contract::fixtures::*;

/// A key whose hash consists of one byte.
fn key(byte: u8) -> KeyRow {
    KeyRow {
        id: new_run().uuid(),
        workspace: new_workspace(),
        name: format!("key {byte} ✓"),
        hash: [byte; 32],
        permissions: vec!["workflow:read".to_owned(), "workflow:manage".to_owned()],
        role: None,
        rate_limit: None,
        created_at: at(byte.into()),
        expires_at: None,
        revoked_at: None,
        maker: None,
    }
}

pub async fn a_key_is_found_by_its_hash(store: Arc<dyn AccessStore>) {
    let (first, second) = (key(1), KeyRow { permissions: vec![], ..key(2) });
    for key in [&first, &second] {
        store.add_key(key).await.unwrap();
    }
    assert_eq!(store.find_key(&[1; 32]).await.unwrap(), Some(first));
    assert_eq!(store.find_key(&[2; 32]).await.unwrap(), Some(second));
    assert_eq!(store.find_key(&[3; 32]).await.unwrap(), None);
}

pub async fn a_hash_is_added_once(store: Arc<dyn AccessStore>) {
    let first = key(1);
    store.add_key(&first).await.unwrap();
    for taken in [key(1), KeyRow { id: first.id, ..key(2) }] {
        let added = store.add_key(&taken).await;
        assert!(matches!(added, Err(Error::Refused(_))), "{added:?}");
    }
    assert_eq!(store.find_key(&[1; 32]).await.unwrap(), Some(first));
    assert_eq!(store.find_key(&[2; 32]).await.unwrap(), None);
}

pub async fn a_permission_is_one_word(store: Arc<dyn AccessStore>) {
    for word in ["", "two words", "line\nbreak"] {
        let key = KeyRow { permissions: vec![word.to_owned()], ..key(1) };
        assert!(matches!(store.add_key(&key).await, Err(Error::Refused(_))));
        assert!(matches!(store.add_first_key(&key).await, Err(Error::Refused(_))));
    }
    assert_eq!(store.find_key(&[1; 32]).await.unwrap(), None);
}

pub async fn the_first_key_is_added_once(store: Arc<dyn AccessStore>) {
    let (first, second) = (key(1), key(2));
    assert!(store.add_first_key(&first).await.unwrap());
    assert!(!store.add_first_key(&second).await.unwrap());
    assert!(!store.add_first_key(&first).await.unwrap());
    assert_eq!(store.find_key(&[1; 32]).await.unwrap(), Some(first));
    assert_eq!(store.find_key(&[2; 32]).await.unwrap(), None);
}

pub async fn parallel_first_keys_leave_one(store: Arc<dyn AccessStore>) {
    let added: Vec<_> = (1..=20)
        .map(|byte| {
            let store = store.clone();
            tokio::spawn(async move { store.add_first_key(&key(byte)).await.unwrap() })
        })
        .collect();
    let mut count = 0;
    for (byte, added) in (1..).zip(added) {
        let is_added = added.await.unwrap();
        count += usize::from(is_added);
        assert_eq!(store.find_key(&[byte; 32]).await.unwrap().is_some(), is_added);
    }
    assert_eq!(count, 1);
}

pub async fn a_key_comes_back_with_all_that_limits_it(store: Arc<dyn AccessStore>) {
    let limited =
        KeyRow { role: Some("operator".to_owned()), rate_limit: Some(u32::MAX), expires_at: Some(at(60)), ..key(1) };
    store.add_key(&limited).await.unwrap();
    assert_eq!(store.find_key(&[1; 32]).await.unwrap(), Some(limited));
    let linked = KeyRow { maker: Some(new_run().uuid()), ..key(2) };
    store.add_key(&linked).await.unwrap();
    assert_eq!(store.list_keys(linked.workspace).await.unwrap(), [linked]);
}

pub async fn a_key_of_a_link_is_deleted_a_day_after_it_expired(stores: Stores) {
    const DAY: i64 = 86_400;
    let maker = KeyRow { expires_at: Some(at(60)), ..key(1) };
    let linked = KeyRow { workspace: maker.workspace, maker: Some(maker.id), expires_at: Some(at(60)), ..key(2) };
    for key in [&maker, &linked] {
        stores.access.add_key(key).await.unwrap();
    }
    stores.runs.sweep(at(60 + DAY), 10).await.unwrap();
    assert_eq!(stores.access.list_keys(maker.workspace).await.unwrap(), [maker.clone(), linked]);
    stores.runs.sweep(at(61 + DAY), 10).await.unwrap();
    assert_eq!(stores.access.list_keys(maker.workspace).await.unwrap(), [maker]);
}

pub async fn keys_are_listed_by_workspace_oldest_first(store: Arc<dyn AccessStore>) {
    let (old, new, other) = (key(1), key(2), key(3));
    let new = KeyRow { workspace: old.workspace, ..new };
    for key in [&new, &other, &old] {
        store.add_key(key).await.unwrap();
    }
    assert_eq!(store.list_keys(old.workspace).await.unwrap(), [old, new]);
    assert_eq!(store.list_keys(other.workspace).await.unwrap(), [other]);
    assert_eq!(store.list_keys(new_workspace()).await.unwrap(), []);
}

pub async fn a_revoked_key_is_not_found_but_listed(store: Arc<dyn AccessStore>) {
    let (revoked, kept) = (key(1), key(2));
    for key in [&revoked, &kept] {
        store.add_key(key).await.unwrap();
    }
    let (workspace, id) = (revoked.workspace, revoked.id);
    let expected = KeyRow { revoked_at: Some(at(100)), ..revoked };
    assert_eq!(store.revoke_key(workspace, id, at(100)).await.unwrap(), Some(expected.clone()));
    // A second revocation changes nothing: the first time is kept.
    assert_eq!(store.revoke_key(workspace, id, at(200)).await.unwrap(), Some(expected.clone()));
    assert_eq!(store.find_key(&[1; 32]).await.unwrap(), None);
    assert_eq!(store.list_keys(workspace).await.unwrap(), [expected]);
    assert_eq!(store.find_key(&[2; 32]).await.unwrap(), Some(kept));
    // The hash of a revoked key cannot be used again, and the first key was added.
    assert!(matches!(store.add_key(&key(1)).await, Err(Error::Refused(_))));
    assert!(!store.add_first_key(&key(3)).await.unwrap());
}

pub async fn only_a_key_of_the_workspace_is_revoked(store: Arc<dyn AccessStore>) {
    let key = key(1);
    store.add_key(&key).await.unwrap();
    assert_eq!(store.revoke_key(new_workspace(), key.id, at(100)).await.unwrap(), None);
    assert_eq!(store.revoke_key(key.workspace, new_run().uuid(), at(100)).await.unwrap(), None);
    assert_eq!(store.find_key(&[1; 32]).await.unwrap(), Some(key));
}

pub async fn keys_have_the_quota_of_the_workspace(store: Arc<dyn AccessStore>) {
    const QUOTA: usize = 4;
    let here = new_workspace();
    let key = |byte: u8| KeyRow { workspace: here, ..key(byte) };
    let add = |key: KeyRow| {
        let store = Arc::clone(&store);
        async move { store.add_key_within(&key, QUOTA).await.unwrap() }
    };
    // Keys that are revoked or have expired do not count, but those of one-time links do until they are deleted.
    let gone = KeyRow { revoked_at: Some(at(1)), ..key(1) };
    let expired = KeyRow { expires_at: Some(at(2)), ..key(2) };
    let linked = KeyRow { revoked_at: Some(at(1)), maker: Some(gone.id), ..key(3) };
    for key in [&gone, &expired, &linked] {
        store.add_key(key).await.unwrap();
    }
    assert_eq!(store.count_keys(here, at(2)).await.unwrap(), 1);
    let first = key(4);
    for key in [first.clone(), key(5)] {
        assert_eq!(add(key).await, KeyOutcome::Added);
    }
    // A key that exists is refused, and not counted.
    assert!(matches!(store.add_key_within(&first, QUOTA).await, Err(Error::Refused(_))));
    assert_eq!(add(key(6)).await, KeyOutcome::Added);
    assert_eq!(store.count_keys(here, at(6)).await.unwrap(), 4);
    assert_eq!(add(key(7)).await, KeyOutcome::QuotaReached(4));
    assert_eq!(store.find_key(&[7; 32]).await.unwrap(), None);
    assert_eq!(add(KeyRow { workspace: new_workspace(), ..key(8) }).await, KeyOutcome::Added, "another has room");
    // A revoked key makes room once, and that of a one-time link does not.
    for seconds in [9, 10] {
        store.revoke_key(here, first.id, at(seconds)).await.unwrap();
        store.revoke_key(here, linked.id, at(seconds)).await.unwrap();
    }
    assert_eq!(add(key(9)).await, KeyOutcome::Added);
    assert_eq!(add(key(10)).await, KeyOutcome::QuotaReached(4));
}
