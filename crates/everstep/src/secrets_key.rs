//! The key for secrets: that of the settings; if there is none and the database is SQLite, one in the data folder.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use everstep_vault::{Keyring, SealKey};

use crate::config::Config;
use crate::exit::invalid;

const KEY_FILE: &str = "secrets.key";

/// The keys of the vault of this database. Without a setting, a shared database has none: each node would create
/// another.
pub(crate) fn ring(config: &Config, data: &Path) -> anyhow::Result<Option<Keyring>> {
    let current = match &config.secrets.key {
        Some(key) => key.clone(),
        None if config.database.is_shared() => return Ok(None),
        None => read_or_create(data)?,
    };
    Ok(Some(Keyring::new(current, config.secrets.old_keys.clone())))
}

/// The key in the data folder; it is created if it does not exist.
fn read_or_create(data: &Path) -> anyhow::Result<SealKey> {
    let path = data.join(KEY_FILE);
    let about = || format!("the key for secrets in {}", path.display());
    match fs::read_to_string(&path) {
        Ok(text) => return text.parse().map_err(invalid).with_context(about),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(about),
    }
    let key = SealKey::generate();
    // The file exists completely or not at all: a truncated key would make its secrets unreadable.
    let draft = data.join(format!("{KEY_FILE}.{}.new", uuid::Uuid::new_v4().simple()));
    write(&draft, &key).with_context(about)?;
    fs::rename(&draft, &path).and_then(|()| fs::File::open(data)?.sync_all()).with_context(about)?;
    Ok(key)
}

fn write(path: &Path, key: &SealKey) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{}", &*key.reveal())?;
    file.sync_all()
}
