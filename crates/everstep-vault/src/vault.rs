//! The secrets of all workspaces.

use std::sync::Arc;

use async_trait::async_trait;
use everstep_core::failure::Failure;
use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use everstep_handlers::Secrets;
use everstep_store::{ResourceKind, ResourceRow, ResourceStore};
use zeroize::Zeroizing;

use crate::error::Error;
use crate::key::Keyring;
use crate::name::check_name;
use crate::seal::{self, SealScope};

/// Bytes of a secret.
pub const SECRET_BYTES_MAX: usize = 64 * 1024;

/// Stores secrets: the database alone does not suffice to read them.
#[derive(Clone)]
pub struct Vault {
    store: Arc<dyn ResourceStore>,
    /// Without a keyring, nothing is stored or revealed; names can still be listed and deleted.
    keys: Option<Arc<Keyring>>,
}

/// The public facts about a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretInfo {
    pub name: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl SecretInfo {
    fn from_row(row: ResourceRow) -> Self {
        Self { name: row.name, created_at: row.created_at, updated_at: row.updated_at }
    }
}

impl Vault {
    pub fn new(store: Arc<dyn ResourceStore>, keys: Option<Keyring>) -> Self {
        Self { store, keys: keys.map(Arc::new) }
    }

    /// Stores a secret, sealed with the key in use. Returns whether it is new.
    pub async fn put(
        &self,
        workspace: WorkspaceId,
        name: &str,
        value: &str,
        now: Timestamp,
    ) -> Result<(SecretInfo, bool), Error> {
        check_name(name)?;
        if value.is_empty() {
            return Err(Error::Invalid("a secret must not be empty; delete it if it is no longer needed".to_owned()));
        }
        if value.len() > SECRET_BYTES_MAX {
            let length = value.len();
            return Err(Error::Invalid(format!("a secret has at most {SECRET_BYTES_MAX} bytes, not {length}")));
        }
        let keys = self.keys.as_deref().ok_or(Error::NoKey)?;
        let row = ResourceRow {
            workspace,
            kind: ResourceKind::Secret,
            name: name.to_owned(),
            body: seal::seal(keys, SealScope { workspace, name }, value),
            created_at: now,
            updated_at: now,
        };
        let is_new = self.store.put_resource(&row).await?;
        let created_at = match is_new {
            true => now,
            false => self.row(workspace, name).await?.map_or(now, |row| row.created_at),
        };
        Ok((SecretInfo { created_at, ..SecretInfo::from_row(row) }, is_new))
    }

    /// At most `limit` secrets by name, after a name. Their values are not read.
    pub async fn list(
        &self,
        workspace: WorkspaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SecretInfo>, Error> {
        let rows = self.store.resources(workspace, ResourceKind::Secret, after, limit).await?;
        Ok(rows.into_iter().map(SecretInfo::from_row).collect())
    }

    /// Whether a secret exists. Its value is not decrypted.
    pub async fn has(&self, workspace: WorkspaceId, name: &str) -> Result<bool, Error> {
        Ok(self.row(workspace, name).await?.is_some())
    }

    pub async fn delete(&self, workspace: WorkspaceId, name: &str) -> Result<(), Error> {
        match self.store.delete_resource(workspace, ResourceKind::Secret, name).await? {
            true => Ok(()),
            false => Err(Error::NotFound(name.to_owned())),
        }
    }

    /// The value of a secret. It is used only in requests to outside systems.
    pub async fn open(&self, workspace: WorkspaceId, name: &str) -> Result<Zeroizing<String>, Error> {
        let row = self.row(workspace, name).await?.ok_or_else(|| Error::NotFound(name.to_owned()))?;
        let keys = self.keys.as_deref().ok_or(Error::NoKey)?;
        seal::open(keys, SealScope { workspace, name }, &row.body)
    }

    async fn row(&self, workspace: WorkspaceId, name: &str) -> Result<Option<ResourceRow>, Error> {
        Ok(self.store.resource(workspace, ResourceKind::Secret, name).await?)
    }
}

#[async_trait]
impl Secrets for Vault {
    async fn reveal(&self, workspace: WorkspaceId, name: &str) -> Result<Zeroizing<String>, Failure> {
        Ok(self.open(workspace, name).await?)
    }
}
