//! A fresh database, a server on it and a worker, and the processor time of each.

use std::time::{Duration, Instant};

use super::server::Server;
use super::worker::{Carrier, Worker};
use crate::bench::args::Plan;
use crate::bench::connection::{self, Connection};
use crate::bench::ground::Scratch;
use crate::bench::process;
use crate::bench::usage::Process;

pub(super) struct Stage {
    // Dropped in this order.
    pub(super) worker: Worker,
    pub(super) server: Server,
    pub(super) scratch: Scratch,
    database: Option<Process>,
}

impl Stage {
    /// Starts everything, and waits until the worker serves.
    pub(super) async fn set(plan: &Plan, part: &str, carrier: Carrier, capacity: usize) -> anyhow::Result<Self> {
        let scratch = Scratch::new(&plan.site).await?;
        let server = Server::start(&scratch.site()).await?;
        let mut worker = Worker::start(&plan.kit, &server, carrier, capacity)?;
        worker.until_ready().await?.tell(part, carrier);
        Ok(Self { worker, server, scratch, database: plan.database() })
    }

    /// Ends everything, and removes the database.
    pub(super) async fn clear(self) -> anyhow::Result<()> {
        let Self { worker, mut server, scratch, .. } = self;
        let complaints = server.complaints();
        if !complaints.is_empty() {
            crate::bench::report::tell(&format!("the server printed:\n{complaints}"));
        }
        tokio::task::spawn_blocking(move || drop((worker, server))).await?;
        scratch.remove().await
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
        let (server, worker) = (self.server.process(), self.worker.process());
        let before = Reading::measure(server, worker, self.database)?;
        Ok(Meter { server, worker, database: self.database, before, began: Instant::now() })
    }
}

/// Measures the processor time of every process from a moment on.
pub(super) struct Meter {
    server: Process,
    worker: Process,
    database: Option<Process>,
    before: Reading,
    pub(super) began: Instant,
}

impl Meter {
    /// The processor time of every process since then.
    pub(super) fn read(&self) -> anyhow::Result<Taken> {
        let after = Reading::measure(self.server, self.worker, self.database)?;
        let before = &self.before;
        let time = self.began.elapsed();
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let taken = Taken {
            time,
            server: after.server.saturating_sub(before.server),
            worker: after.worker.saturating_sub(before.worker),
            database: after.database.zip(before.database).map(|(after, before)| after.saturating_sub(before)),
            client: after.client.saturating_sub(before.client),
            foreign: 0.0,
        };
        let foreign = (after.busy - before.busy - taken.ours().as_secs_f64()) / time.as_secs_f64() / cores;
        Ok(Taken { foreign: foreign.clamp(0.0, 1.0), ..taken })
    }
}

/// The processor time of each process.
pub(super) struct Taken {
    pub(super) time: Duration,
    pub(super) server: Duration,
    pub(super) worker: Duration,
    /// Unknown if the database's server was not started for the measurement.
    pub(super) database: Option<Duration>,
    /// The client that starts the runs: this process.
    pub(super) client: Duration,
    /// The share of the machine that other processes used, from 0 to 1.
    pub(super) foreign: f64,
}

impl Taken {
    /// The sum of the known times.
    pub(super) fn ours(&self) -> Duration {
        self.server + self.worker + self.client + self.database.unwrap_or_default()
    }
}

struct Reading {
    server: Duration,
    worker: Duration,
    database: Option<Duration>,
    client: Duration,
    busy: f64,
}

impl Reading {
    fn measure(server: Process, worker: Process, database: Option<Process>) -> anyhow::Result<Self> {
        Ok(Self {
            server: server.scheduled_time()?,
            worker: worker.scheduled_time()?,
            database: database.map(Process::family_time).transpose()?,
            client: Process::this().scheduled_time()?,
            busy: process::busy_seconds()?,
        })
    }
}
