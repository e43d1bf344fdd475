//! The ports through which handlers access their environment.

use std::sync::Arc;

use async_trait::async_trait;
use everstep_core::failure::Failure;
use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_core::records::{
    LinkPage, LinkQuery, NamespaceCountPage, NamespaceFilter, NamespacesRequest, NewOp, Record, RecordPage, RecordQuery,
};
use everstep_net::{Client, Guard};
use everstep_sandbox::Sandbox;
use zeroize::Zeroizing;

use crate::http::HttpBounds;
use crate::notify::MailServer;
use crate::sources::{Drivers, Query, SOURCE_NOT_FOUND, Source};
use crate::webhook::WebhookBounds;

/// Reveals the secrets of a workspace.
#[async_trait]
pub trait Secrets: Send + Sync {
    async fn reveal(&self, workspace: WorkspaceId, name: &str) -> Result<Zeroizing<String>, Failure>;
}

/// Finds the data sources of a workspace, and its saved queries.
#[async_trait]
pub trait Sources: Send + Sync {
    async fn query(&self, workspace: WorkspaceId, id: &str) -> Result<Query, Failure>;

    async fn source(&self, workspace: WorkspaceId, name: &str) -> Result<Source, Failure>;
}

/// Decides which workspaces may use `fetch` in their scripts.
#[async_trait]
pub trait FetchPolicy: Send + Sync {
    async fn allows(&self, workspace: WorkspaceId) -> Result<bool, Failure>;
}

/// The address of a workspace that receives its mails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyTarget {
    pub url: String,
    /// The name of the secret that signs them.
    pub secret: String,
}

/// Finds the addresses of workspaces that receive their mails.
#[async_trait]
pub trait NotifyPolicy: Send + Sync {
    /// The address as it was a few seconds ago.
    async fn find_target(&self, workspace: WorkspaceId) -> Result<Option<NotifyTarget>, Failure>;

    /// The address as it is now.
    async fn reread_target(&self, workspace: WorkspaceId) -> Result<Option<NotifyTarget>, Failure>;
}

/// Applies ops of steps to records and links, and reads them. It waits as long as necessary; only the data of an op, or
/// the state of the records, makes a step fail.
#[async_trait]
pub trait Records: Send + Sync {
    /// Applies an op, once per key. Returns its output.
    async fn apply(&self, op: NewOp) -> Result<Payload, Failure>;

    /// The record with a key, unless it has expired.
    async fn get(&self, workspace: WorkspaceId, namespace: &str, key: &str) -> Result<Option<Record>, Failure>;

    /// A page of the records of a namespace.
    async fn list(&self, workspace: WorkspaceId, query: &RecordQuery) -> Result<RecordPage, Failure>;

    /// A page of links.
    async fn links(&self, workspace: WorkspaceId, query: &LinkQuery) -> Result<LinkPage, Failure>;

    /// A page of namespaces, by name.
    async fn namespaces(
        &self,
        workspace: WorkspaceId,
        filter: NamespaceFilter,
        request: &NamespacesRequest,
    ) -> Result<NamespaceCountPage, Failure>;
}

/// All ports of the standard handlers.
#[derive(Clone)]
pub struct Ports {
    pub sandbox: Sandbox,
    pub client: Client,
    pub http: HttpBounds,
    pub webhooks: WebhookBounds,
    pub secrets: Arc<dyn Secrets>,
    pub sources: Arc<dyn Sources>,
    pub drivers: Drivers,
    pub fetch_policy: Arc<dyn FetchPolicy>,
    pub notify_policy: Arc<dyn NotifyPolicy>,
    /// The mail server, if there is one.
    pub mail_server: Option<MailServer>,
    pub records: Arc<dyn Records>,
}

impl Ports {
    /// For checking definitions, and for tests: no secrets, sources and records exist, and private addresses are
    /// blocked.
    pub fn none() -> Self {
        let client = Client::new(Guard::default());
        let secrets: Arc<dyn Secrets> = Arc::new(Nothing);
        Self {
            sandbox: Sandbox::new(1),
            drivers: Drivers::new(client.clone(), Arc::clone(&secrets), None),
            client,
            http: HttpBounds::default(),
            webhooks: WebhookBounds::default(),
            secrets,
            sources: Arc::new(Nothing),
            fetch_policy: Arc::new(Nothing),
            notify_policy: Arc::new(Nothing),
            mail_server: None,
            records: Arc::new(Nothing),
        }
    }
}

/// Provides nothing.
struct Nothing;

#[async_trait]
impl Secrets for Nothing {
    async fn reveal(&self, _: WorkspaceId, name: &str) -> Result<Zeroizing<String>, Failure> {
        Err(Failure::fatal(
            "SECRET_NOT_FOUND",
            format!("the secret {name:?} does not exist: no secrets are stored here"),
        ))
    }
}

#[async_trait]
impl Sources for Nothing {
    async fn query(&self, _: WorkspaceId, id: &str) -> Result<Query, Failure> {
        Err(Failure::fatal(SOURCE_NOT_FOUND, format!("the query {id:?} does not exist: no queries are stored here")))
    }

    async fn source(&self, _: WorkspaceId, name: &str) -> Result<Source, Failure> {
        Err(Failure::fatal(
            SOURCE_NOT_FOUND,
            format!("the data source {name:?} does not exist: no data sources are stored here"),
        ))
    }
}

#[async_trait]
impl FetchPolicy for Nothing {
    async fn allows(&self, _: WorkspaceId) -> Result<bool, Failure> {
        Ok(false)
    }
}

#[async_trait]
impl NotifyPolicy for Nothing {
    async fn find_target(&self, _: WorkspaceId) -> Result<Option<NotifyTarget>, Failure> {
        Ok(None)
    }

    async fn reread_target(&self, _: WorkspaceId) -> Result<Option<NotifyTarget>, Failure> {
        Ok(None)
    }
}

#[async_trait]
impl Records for Nothing {
    async fn apply(&self, _: NewOp) -> Result<Payload, Failure> {
        Err(no_records())
    }

    async fn get(&self, _: WorkspaceId, _: &str, _: &str) -> Result<Option<Record>, Failure> {
        Err(no_records())
    }

    async fn list(&self, _: WorkspaceId, _: &RecordQuery) -> Result<RecordPage, Failure> {
        Err(no_records())
    }

    async fn links(&self, _: WorkspaceId, _: &LinkQuery) -> Result<LinkPage, Failure> {
        Err(no_records())
    }

    async fn namespaces(
        &self,
        _: WorkspaceId,
        _: NamespaceFilter,
        _: &NamespacesRequest,
    ) -> Result<NamespaceCountPage, Failure> {
        Err(no_records())
    }
}

fn no_records() -> Failure {
    Failure::fatal("NO_DATA_STORE", "no records and links are stored here")
}
