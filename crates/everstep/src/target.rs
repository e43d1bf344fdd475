//! The target of a command: the database, or a server over HTTP.

use anyhow::{Context, anyhow};
use everstep_core::actor::Actor;
use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use everstep_engine::NodeClock;
use everstep_store::{AuditRow, Error, Stores};
use serde_json::{Value, json};

use crate::config::Config;
use crate::exit::invalid;
use crate::remote::Remote;
use crate::settings::RemoteSettings;
use crate::{data_folder, wire};

pub(crate) enum Target {
    Database(LocalDatabase),
    Server(Remote),
}

/// A database that this process may use.
pub(crate) struct LocalDatabase {
    pub(crate) stores: Stores,
    pub(crate) now: Timestamp,
}

impl Target {
    /// The target of a command that needs a database which exists. A named server takes precedence over the database.
    /// If a server uses the data folder, the command uses that server.
    pub(crate) async fn open(remote: &RemoteSettings, config: &Config) -> anyhow::Result<Self> {
        if let Some(remote) = Remote::from_settings(remote)? {
            return Ok(Self::Server(remote));
        }
        data_folder::require_database(config)?;
        Self::open_database(remote, config).await
    }

    /// As [`Target::open`], for a command that writes: it creates the database if none exists, and reports that. The
    /// folder may be mistyped.
    pub(crate) async fn open_or_create(remote: &RemoteSettings, config: &Config) -> anyhow::Result<Self> {
        if let Some(remote) = Remote::from_settings(remote)? {
            return Ok(Self::Server(remote));
        }
        let is_new = data_folder::lacks_database(config);
        let target = Self::open_database(remote, config).await?;
        if is_new {
            eprintln!("created a new database in the data folder {}", config.server.data.display());
        }
        Ok(target)
    }

    async fn open_database(remote: &RemoteSettings, config: &Config) -> anyhow::Result<Self> {
        let data = &config.server.data;
        match wire::open_stores(data, &config.database).await {
            Ok(stores) => Ok(Self::Database(LocalDatabase { stores, now: NodeClock::system().now() })),
            Err(error) if !matches!(error.downcast_ref(), Some(Error::Locked(_))) => Err(error),
            Err(error) => match Remote::of_folder(remote, data)? {
                Some(remote) => Ok(Self::Server(remote)),
                None => Err(error.context(
                    "to use the running server, set --server (EVERSTEP_URL) and an API key in EVERSTEP_API_KEY; \
                     otherwise stop the server first",
                )),
            },
        }
    }
}

impl LocalDatabase {
    /// The id of a workspace, by its name.
    pub(crate) async fn workspace(&self, name: Option<&str>) -> anyhow::Result<WorkspaceId> {
        let Some(name) = name else { return Ok(WorkspaceId::DEFAULT) };
        let rows = self.stores.access.workspaces().await.context("reading the workspaces")?;
        rows.iter().find(|row| row.name == name).map(|row| row.id).ok_or_else(|| {
            let known: Vec<_> = rows.iter().map(|row| &*row.name).collect();
            invalid(format!("the workspace {name:?} does not exist; the workspaces are {}", known.join(", ")))
        })
    }

    /// Writes an audit row.
    pub(crate) async fn audit(&self, workspace: WorkspaceId, action: &str, target: &str) -> anyhow::Result<()> {
        let row = AuditRow {
            id: everstep_api::new_id(self.now),
            workspace,
            at: self.now,
            actor: Actor::system("command line"),
            action: action.to_owned(),
            target: target.to_owned(),
            details: Payload::from(json!({})),
        };
        self.stores
            .access
            .add_audit(&[row])
            .await
            .map_err(|error| anyhow!("the action succeeded, but its row of the audit was not written: {error}"))
    }
}

/// A server uses the workspace of the API key of the request.
pub(crate) fn refuse_workspace(name: Option<&str>) -> anyhow::Result<()> {
    match name {
        None => Ok(()),
        Some(_) => Err(invalid("--workspace has no effect at a server, which uses the workspace of the API key")),
    }
}

/// A field of a server's response.
pub(crate) fn field(answer: &Value, name: &str) -> anyhow::Result<String> {
    answer[name].as_str().map(str::to_owned).ok_or_else(|| anyhow!("the response of the server has no {name}"))
}
