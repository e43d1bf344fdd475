//! The first API key of a database. Without one the server could not be used; it is created once, shown once, and
//! stored in a file that only its owner may read.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use everstep_api::auth::{ApiKey, Grant, NewKey, Role};
use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use everstep_store::AccessStore;

use crate::data_folder;

const DRAFT_PREFIX: &str = "admin.key.";

/// Where the first API key is.
#[derive(Debug)]
pub(crate) enum FirstKey {
    /// It was created just now.
    Made(ApiKey, PathBuf),
    /// This file has contained it since an earlier start.
    Kept(PathBuf),
    /// The database has API keys, and this machine has none of them.
    Unknown,
}

/// Creates an admin API key if the database has no key at all.
pub(crate) async fn ensure(store: &dyn AccessStore, data: &Path, now: Timestamp) -> anyhow::Result<FirstKey> {
    let path = data.join("admin.key");
    if is_known(store, &path).await? {
        return Ok(FirstKey::Kept(path));
    }
    // An interrupted start may have left its draft behind, and the key is valid in any case.
    for draft in drafts(data) {
        if is_known(store, &draft).await? {
            fs::rename(&draft, &path).with_context(|| format!("writing the first API key to {}", path.display()))?;
            return Ok(FirstKey::Kept(path));
        }
    }
    let secret = ApiKey::generate();
    // The file is written before the key is valid: a crash in between loses nothing.
    let draft = data.join(format!("{DRAFT_PREFIX}{}.new", uuid::Uuid::new_v4().simple()));
    match write(data, &draft, &secret) {
        Err(error) if error.kind() == ErrorKind::StorageFull => {
            // It serves the keys that the database has.
            tracing::error!("the disk is full: a first API key cannot be created; free some disk space and restart");
            let _ = fs::remove_file(&draft);
            return Ok(FirstKey::Unknown);
        }
        Err(error) if !data.is_dir() => return Err(data_folder::describe_error(data, &error)),
        written => written.with_context(|| format!("writing the first API key to {}", draft.display()))?,
    }
    let new =
        NewKey { name: "first admin".to_owned(), allows: Grant::Role(Role::Admin), expires_at: None, rate_limit: None };
    let row = new.row(&secret, WorkspaceId::DEFAULT, now);
    let added = store.add_first_key(&row).await;
    // After an error the key may exist: the next start checks.
    if matches!(added, Ok(false)) {
        let _ = fs::remove_file(&draft);
    }
    if added.context("creating the first API key")? {
        fs::rename(&draft, &path).with_context(|| format!("writing the first API key to {}", path.display()))?;
        return Ok(FirstKey::Made(secret, path));
    }
    // Another node of this machine may have been faster.
    Ok(if is_known(store, &path).await? { FirstKey::Kept(path) } else { FirstKey::Unknown })
}

/// Drafts of earlier starts.
fn drafts(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_draft = |path: &PathBuf| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(DRAFT_PREFIX) && name.ends_with(".new"))
    };
    entries.filter(is_draft).collect()
}

/// Whether a file contains a key of the database.
async fn is_known(store: &dyn AccessStore, path: &Path) -> anyhow::Result<bool> {
    let Ok(text) = fs::read_to_string(path) else { return Ok(false) };
    let Ok(secret) = text.trim().parse::<ApiKey>() else { return Ok(false) };
    Ok(store.find_key(&secret.hash()).await.context("looking for the first API key")?.is_some())
}

fn write(data: &Path, path: &Path, secret: &ApiKey) -> std::io::Result<()> {
    data_folder::create(data)?;
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    writeln!(file, "{}", secret.reveal())?;
    file.sync_all()
}
