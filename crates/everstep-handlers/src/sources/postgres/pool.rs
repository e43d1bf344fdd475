//! The connections of one source.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use everstep_core::failure::Failure;
use everstep_core::ids::WorkspaceId;
use everstep_net::Guard;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::address::Address;
use super::connection::Connection;
use crate::ports::Secrets;
use crate::sources::QUERY_ERROR;
use crate::sources::source::PostgresSource;

/// An idle connection is closed after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Resets the state that a statement may have changed: settings, another role, locks of the session.
const RESET_SQL: &str = "rollback; reset all; set session authorization default; select pg_advisory_unlock_all()";

/// A bounded pool of connections to one source.
pub(in crate::sources) struct Pool {
    source: PostgresSource,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    pub(in crate::sources) fn new(source: PostgresSource) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(source.max_connections.max(1) as usize));
        let pool = Arc::new(Self { source, permits, idle: Mutex::default() });
        tokio::spawn(sweep(Arc::downgrade(&pool)));
        pool
    }

    /// Whether it belongs to a source with this configuration. A changed source has another pool.
    pub(in crate::sources) fn is_of(&self, source: &PostgresSource) -> bool {
        self.source == *source
    }

    pub(in crate::sources) fn has_connections(&self) -> bool {
        !self.idle.lock().expect("no holder of the lock panics").is_empty()
    }

    /// Lends a connection: an idle one, or a new one.
    pub(super) async fn lend(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        secrets: &dyn Secrets,
        guard: &Guard,
    ) -> Result<Lease, Failure> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| Failure::transient(QUERY_ERROR, "the server is stopping"))?;
        let resting = || self.idle.lock().expect("no holder of the lock panics").pop();
        while let Some(connection) = resting() {
            if !connection.client.is_closed() {
                return Ok(Lease { connection: Some(connection), pool: Arc::clone(self), permit: Some(permit) });
            }
        }
        let address = Address::from_source(&self.source, workspace, secrets).await?;
        let connection = Connection::open(guard, address).await?;
        Ok(Lease { connection: Some(connection), pool: Arc::clone(self), permit: Some(permit) })
    }
}

/// A lent connection. Unless it is returned, its statement is cancelled and it is closed.
pub(super) struct Lease {
    connection: Option<Connection>,
    pool: Arc<Pool>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Lease {
    pub(super) fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("a lease has its connection until it is returned")
    }

    /// Returns the connection, after a reset. The caller does not wait for the reset.
    pub(super) fn give_back(mut self) {
        let (connection, permit) = (self.connection.take(), self.permit.take());
        let pool = Arc::clone(&self.pool);
        let Some(mut connection) = connection.filter(|connection| !connection.client.is_closed()) else { return };
        tokio::spawn(async move {
            connection.begin();
            let cleaned =
                tokio::time::timeout(Duration::from_secs(5), connection.client.batch_execute(RESET_SQL)).await;
            if let Ok(Ok(())) = cleaned {
                connection.rested = Some(Instant::now());
                pool.idle.lock().expect("no holder of the lock panics").push(connection);
            }
            drop(permit);
        });
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.cancel();
        }
    }
}

/// Closes connections that have been idle for long, as long as the pool exists.
async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(IDLE_TIMEOUT / 2).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.idle.lock().expect("no holder of the lock panics");
        idle.retain(|connection| connection.rested.is_some_and(|since| since.elapsed() < IDLE_TIMEOUT));
    }
}
