//! A PostgreSQL database that is open: two pools of connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::connections::Connections;
use super::url::Address;
use super::{schema, server};
use crate::error::Result;
use crate::ports::Stores;

/// Opens a database, as [`PostgresStore::open`] does. Returns its ports.
pub async fn open(url: &str, options: &Options) -> Result<Stores> {
    Ok(Stores::new(Arc::new(PostgresStore::open(url, options).await?)))
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Whether a pooler (PgBouncer in transaction mode) stands in between: statements are then not prepared,
    /// and nothing is set for longer than a transaction.
    pub pooled: bool,
    /// How many connections there may be at once; two at least.
    pub connections: usize,
    pub connect_timeout: Duration,
    /// How long a call may take before its outcome is unknown.
    pub call_timeout: Duration,
    /// How long a call of a node's heartbeat may take: so short that another try is in time for its lease.
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

/// A PostgreSQL database that other nodes may use too.
pub struct PostgresStore {
    pub(super) connections: Connections,
    /// For what a node asks in its tick, one thing after the other: it waits for no other caller, nor for long.
    pub(super) heartbeat: Connections,
    /// Held by whoever tells of new partitions.
    pub(super) telling: Mutex<()>,
}

impl PostgresStore {
    /// Connects to `postgres://user:password@host:port/name?sslmode=…` and brings the database to the newest schema.
    /// Several nodes may do so at once.
    pub async fn open(url: &str, options: &Options) -> Result<Self> {
        let address = Address::parse(url)?;
        let connections = Connections::new(&address, options, options.connections.max(2) - 1)?;
        let hurried = Options { call_timeout: options.heartbeat_timeout, ..options.clone() };
        let heartbeat = Connections::new(&address, &hurried, 2)?;
        let server = server::greet(&connections, &address).await?;
        schema::migrate(&connections, &server).await?;
        let store = Self { connections, heartbeat, telling: Mutex::new(()) };
        store.make_partitions_ahead(server.clock).await?;
        Ok(store)
    }
}
