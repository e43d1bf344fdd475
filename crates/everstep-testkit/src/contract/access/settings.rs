//! Settings: one value for all nodes.

use std::sync::Arc;

use everstep_store::AccessStore;

pub async fn the_first_value_of_a_setting_is_everyone_s(store: Arc<dyn AccessStore>) {
    assert_eq!(store.setting("colour", b"blue").await.unwrap(), b"blue");
    assert_eq!(store.setting("colour", b"red").await.unwrap(), b"blue");
    assert_eq!(store.setting("shape", b"\0round\xff").await.unwrap(), b"\0round\xff");
    assert_eq!(store.setting("colour", b"").await.unwrap(), b"blue");
}

pub async fn parallel_settings_agree(store: Arc<dyn AccessStore>) {
    let answers: Vec<_> = (0..20_u8)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { store.setting("secret", &[n]).await.unwrap() })
        })
        .collect();
    let stored = store.setting("secret", b"late").await.unwrap();
    for answer in answers {
        assert_eq!(answer.await.unwrap(), stored);
    }
}
