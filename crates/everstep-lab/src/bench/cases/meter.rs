//! The processor time of the processes of a measurement.

use std::time::{Duration, Instant};

use crate::bench::process;
use crate::bench::usage::Process;

/// The processes of a measurement beside this one.
#[derive(Clone, Copy)]
pub(super) struct Processes {
    pub(super) server: Process,
    pub(super) worker: Option<Process>,
    pub(super) database: Option<Process>,
    /// A client beside this process.
    pub(super) client: Option<Process>,
}

/// Measures the processor time of every process from a moment on.
pub(super) struct Meter {
    processes: Processes,
    before: Reading,
    began: Instant,
}

impl Meter {
    pub(super) fn start(processes: Processes) -> anyhow::Result<Self> {
        let before = Reading::measure(processes)?;
        Ok(Self { processes, before, began: Instant::now() })
    }

    /// The processor time of every process since then.
    pub(super) fn read(&self) -> anyhow::Result<Taken> {
        let after = Reading::measure(self.processes)?;
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
    /// Zero without a worker.
    pub(super) worker: Duration,
    /// Unknown if the database's server was not started for the measurement.
    pub(super) database: Option<Duration>,
    /// The clients: this process, and the program beside it.
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
    fn measure(processes: Processes) -> anyhow::Result<Self> {
        let Processes { server, worker, database, client } = processes;
        let program = client.map(Process::scheduled_time).transpose()?.unwrap_or_default();
        Ok(Self {
            server: server.scheduled_time()?,
            worker: worker.map(Process::scheduled_time).transpose()?.unwrap_or_default(),
            database: database.map(Process::family_time).transpose()?,
            client: Process::this().scheduled_time()? + program,
            busy: process::busy_seconds()?,
        })
    }
}
