//! Secrets on a real database.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::sync::Arc;

use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use everstep_handlers::{FetchPolicy, NotifyPolicy, NotifyTarget, Secrets};
use everstep_store::{ResourceKind, ResourceRow, Stores, WorkspaceRow, sqlite};
use everstep_vault::{Error, Keyring, SealKey, Vault, WorkspaceOptions};
use serde_json::json;
use tempfile::TempDir;

const HERE: WorkspaceId = WorkspaceId::DEFAULT;
const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn open() -> (TempDir, Stores) {
    let folder = tempfile::tempdir().unwrap();
    let stores = sqlite::open(folder.path(), &Default::default()).unwrap();
    (folder, stores)
}

fn elsewhere() -> WorkspaceId {
    WorkspaceId::new(NOW, 7)
}

fn vault(stores: &Stores, current: &SealKey, old: &[&SealKey]) -> Vault {
    let old = old.iter().map(|key| (*key).clone()).collect();
    Vault::new(Arc::clone(&stores.resources), Some(Keyring::new(current.clone(), old)))
}

#[tokio::test]
async fn the_database_never_has_a_value() {
    let (folder, stores) = open();
    let vault = vault(&stores, &SealKey::generate(), &[]);
    vault.put(HERE, "sesame", "open-the-door", NOW).await.unwrap();
    assert_eq!(*vault.reveal(HERE, "sesame").await.unwrap(), "open-the-door");
    drop((vault, stores));
    let mut files = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let Ok(bytes) = std::fs::read(entry.unwrap().path()) else { continue };
        assert!(!bytes.windows(13).any(|part| part == b"open-the-door"));
        files += 1;
    }
    assert!(files > 0);
}

#[tokio::test]
async fn a_secret_belongs_to_its_workspace_and_its_name() {
    let (_folder, stores) = open();
    let vault = vault(&stores, &SealKey::generate(), &[]);
    vault.put(HERE, "one", "of here", NOW).await.unwrap();
    vault.put(elsewhere(), "one", "of elsewhere", NOW).await.unwrap();
    assert_eq!(*vault.open(HERE, "one").await.unwrap(), "of here");
    assert_eq!(*vault.open(elsewhere(), "one").await.unwrap(), "of elsewhere");
    let failure = vault.reveal(HERE, "two").await.unwrap_err();
    assert_eq!((&*failure.code, failure.retryable), ("SECRET_NOT_FOUND", false));

    // A user with write access to the database cannot make a step use the secret of another workspace.
    let row = stores.resources.resource(elsewhere(), ResourceKind::Secret, "one").await.unwrap().unwrap();
    stores.resources.put_resource(&ResourceRow { workspace: HERE, name: "two".to_owned(), ..row }).await.unwrap();
    assert!(matches!(vault.open(HERE, "two").await, Err(Error::Broken(_))));
    assert_eq!(vault.reveal(HERE, "two").await.unwrap_err().code, "SECRET_UNREADABLE");
}

#[tokio::test]
async fn keys_are_changed_one_secret_at_a_time() {
    let (_folder, stores) = open();
    let (old, new) = (SealKey::generate(), SealKey::generate());
    let before = vault(&stores, &old, &[]);
    before.put(HERE, "a", "1", NOW).await.unwrap();
    before.put(HERE, "b", "2", NOW).await.unwrap();

    let between = vault(&stores, &new, &[&old]);
    assert_eq!(*between.open(HERE, "a").await.unwrap(), "1");
    between.put(HERE, "a", "1", NOW).await.unwrap();

    let after = vault(&stores, &new, &[]);
    assert_eq!(*after.open(HERE, "a").await.unwrap(), "1");
    let failure = after.reveal(HERE, "b").await.unwrap_err();
    assert_eq!(failure.code, "SECRET_UNREADABLE");
    assert!(failure.message.contains("EVERSTEP_SECRETS_OLD_KEYS"), "{failure}");
}

#[tokio::test]
async fn without_a_key_nothing_is_stored_and_nothing_revealed() {
    let (_folder, stores) = open();
    vault(&stores, &SealKey::generate(), &[]).put(HERE, "a", "1", NOW).await.unwrap();
    let locked = Vault::new(Arc::clone(&stores.resources), None);
    let error = locked.put(HERE, "b", "2", NOW).await.unwrap_err();
    assert!(error.to_string().contains("EVERSTEP_SECRETS_KEY=$(everstep secrets key)"), "{error}");
    assert_eq!(locked.reveal(HERE, "a").await.unwrap_err().code, "SECRETS_KEY_MISSING");
    // Names are not secret, and unneeded secrets can be deleted.
    assert_eq!(locked.list(HERE, None, 10).await.unwrap()[0].name, "a");
    locked.delete(HERE, "a").await.unwrap();
    assert!(matches!(locked.delete(HERE, "a").await, Err(Error::NotFound(_))));
}

#[tokio::test]
async fn fetch_is_allowed_by_the_options_of_the_workspace() {
    let (_folder, stores) = open();
    let row = WorkspaceRow {
        id: elsewhere(),
        name: "shop".to_owned(),
        options: json!({"fetch": true}).into(),
        created_at: NOW,
    };
    assert!(stores.access.add_workspace(&row).await.unwrap());
    let options = WorkspaceOptions::new(stores.access);
    assert!(options.allows(elsewhere()).await.unwrap());
    assert!(!options.allows(HERE).await.unwrap());
    assert!(!options.allows(WorkspaceId::new(NOW, 8)).await.unwrap());
}

#[tokio::test]
async fn mails_are_sent_to_the_address_of_their_workspace() {
    let (_folder, stores) = open();
    let row = WorkspaceRow {
        id: elsewhere(),
        name: "shop".to_owned(),
        options: json!({"notifyUrl": "https://mail.example.com/", "notifySecret": "mail-signing"}).into(),
        created_at: NOW,
    };
    assert!(stores.access.add_workspace(&row).await.unwrap());
    let options = WorkspaceOptions::new(std::sync::Arc::clone(&stores.access));
    let target = NotifyTarget { url: "https://mail.example.com/".to_owned(), secret: "mail-signing".to_owned() };
    assert_eq!(options.find_target(elsewhere()).await.unwrap(), Some(target));
    assert_eq!(options.find_target(HERE).await.unwrap(), None);
    // A change is seen when the options are read again.
    assert!(stores.access.set_workspace_options(elsewhere(), &json!({}).into()).await.unwrap());
    assert_eq!(options.reread_target(elsewhere()).await.unwrap(), None);
    assert_eq!(options.find_target(elsewhere()).await.unwrap(), None);
}
