//! A fresh database, a server on it and a worker, and the processor time of each.

use super::worker::{Carrier, Worker};
use crate::bench::args::Plan;
use crate::bench::cases::meter::{Meter, Processes};
use crate::bench::cases::server::Server;
use crate::bench::connection::{self, Connection};
use crate::bench::ground::Scratch;
use crate::bench::usage::Process;

pub(super) struct Stage {
    // Dropped in this order.
    pub(super) worker: Worker,
    pub(super) server: Server,
    pub(super) scratch: Scratch,
    database: Option<Process>,
}

impl Stage {
    /// Starts everything on a fresh database, and waits until the worker serves.
    pub(super) async fn set(plan: &Plan, part: &str, carrier: Carrier, capacity: usize) -> anyhow::Result<Self> {
        Self::set_on(Scratch::new(&plan.site).await?, plan, part, carrier, capacity).await
    }

    /// The same on a database that exists.
    pub(super) async fn set_on(
        scratch: Scratch,
        plan: &Plan,
        part: &str,
        carrier: Carrier,
        capacity: usize,
    ) -> anyhow::Result<Self> {
        let server = Server::start(&scratch.site()).await?;
        let mut worker = Worker::start(&plan.kit, &server, carrier, capacity)?;
        worker.until_ready().await?.tell(part, carrier);
        Ok(Self { worker, server, scratch, database: plan.database() })
    }

    /// Ends everything, and removes the database.
    pub(super) async fn clear(self) -> anyhow::Result<()> {
        self.leave().await?.remove().await
    }

    /// Ends everything except for the database.
    pub(super) async fn leave(self) -> anyhow::Result<Scratch> {
        let Self { worker, mut server, scratch, .. } = self;
        let complaints = server.complaints();
        if !complaints.is_empty() {
            crate::bench::report::tell(&format!("the server printed:\n{complaints}"));
        }
        tokio::task::spawn_blocking(move || drop((worker, server))).await?;
        Ok(scratch)
    }

    /// Ends the worker and starts another one, with a warm server.
    pub(super) async fn replace_worker(self, plan: &Plan, carrier: Carrier, capacity: usize) -> anyhow::Result<Self> {
        let Self { worker, server, scratch, database } = self;
        tokio::task::spawn_blocking(move || drop(worker)).await?;
        let mut worker = Worker::start(&plan.kit, &server, carrier, capacity)?;
        worker.until_ready().await?;
        Ok(Self { worker, server, scratch, database })
    }

    pub(super) async fn connect(&self) -> anyhow::Result<Connection> {
        Connection::open(&self.server.address).await
    }

    /// A request to start a run. The server accepts it also if no worker has registered the workflow.
    pub(super) fn start_request(&self, workflow: &str, query: &str) -> Vec<u8> {
        let body = "{\"input\":{\"n\":1},\"allowUnserved\":true}";
        self.request(&format!("/v1/workflows/{workflow}/runs{query}"), body)
    }

    pub(super) fn request(&self, path: &str, body: &str) -> Vec<u8> {
        connection::post(&self.server.address, &self.server.key, path, body)
    }

    pub(super) fn meter(&self) -> anyhow::Result<Meter> {
        self.meter_with(None)
    }

    /// The same beside a client in a process of its own.
    pub(super) fn meter_with(&self, client: Option<Process>) -> anyhow::Result<Meter> {
        Meter::start(Processes {
            server: self.server.process(),
            worker: Some(self.worker.process()),
            database: self.database,
            client,
        })
    }
}
