//! An open PostgreSQL database: two pools of connections.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Mutex;

use super::connections::Connections;
use super::url::Address;
use super::{schema, server};
use crate::error::Result;
use crate::pace::Pace;
use crate::ports::Stores;
use crate::quota::QuotaCounts;

/// Opens a database, as [`PostgresStore::open`] does. Returns its ports.
pub async fn open(url: &str, options: &Options) -> Result<Stores> {
    Ok(Stores::new(Arc::new(PostgresStore::open(url, options).await?)))
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Whether the connections go through a pooler (PgBouncer in transaction mode): then statements are not prepared,
    /// and settings last for one transaction.
    pub pooled: bool,
    /// The maximum number of connections; at least two.
    pub connections: usize,
    pub connect_timeout: Duration,
    /// The time limit of a call, after which its outcome is unknown.
    pub call_timeout: Duration,
    /// The time limit of a call of a node's heartbeat: short enough for a retry before the lease ends.
    pub heartbeat_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pooled: false,
            connections: 10,
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(10),
            heartbeat_timeout: Duration::from_secs(5),
        }
    }
}

/// A PostgreSQL database that other nodes may also use.
pub struct PostgresStore {
    pub(super) connections: Connections,
    /// For the calls of a node's heartbeat, so that they do not wait for other callers. Its time limit is shorter.
    pub(super) heartbeat: Connections,
    /// Held while new partitions are announced to all connections.
    pub(super) announcing: Mutex<()>,
    pub(super) workflow_counts: QuotaCounts,
    pub(super) key_counts: QuotaCounts,
    pub(super) pace: Pace,
}

impl PostgresStore {
    /// Connects to `postgres://user:password@host:port/name?sslmode=…` and brings the database to the newest schema.
    /// Several nodes may do this at the same time.
    ///
    /// The future is boxed so that this crate compiles the code of connections, not each crate that opens a database.
    pub fn open<'a>(url: &'a str, options: &'a Options) -> BoxFuture<'a, Result<Self>> {
        Box::pin(Self::connect(url, options))
    }

    async fn connect(url: &str, options: &Options) -> Result<Self> {
        let address = Address::parse(url)?;
        let connections = Connections::new(&address, options, options.connections.max(2) - 1)?;
        let hurried = Options { call_timeout: options.heartbeat_timeout, ..options.clone() };
        let heartbeat = Connections::new(&address, &hurried, 2)?;
        let server = server::greet(&connections, &address).await?;
        schema::migrate(&connections, &server).await?;
        let (workflow_counts, key_counts) = Default::default();
        let (announcing, pace) = (Mutex::new(()), Pace::default());
        let store = Self { connections, heartbeat, announcing, workflow_counts, key_counts, pace };
        store.make_partitions_ahead(server.clock).await?;
        Ok(store)
    }
}
