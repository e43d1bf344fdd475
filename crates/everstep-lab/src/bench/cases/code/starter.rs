//! Starts runs on request, at so little cost that it does not affect the measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::ensure;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::stage::Stage;
use crate::bench::connection::{Answer, Connection};

/// The maximum number of runs that one request starts.
const BATCH_RUNS_MAX: usize = 500;

/// How runs are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A request for each, on this number of connections.
    Each(usize),
    /// As many as are wanted in one request, one request at a time on each of this number of connections.
    Batch(usize),
}

pub(super) struct Starter {
    /// Starts that are requested and not in progress.
    wanted: Arc<Semaphore>,
    started: Arc<AtomicU64>,
    callers: JoinSet<anyhow::Result<()>>,
}

impl Starter {
    pub(super) async fn new(stage: &Stage, workflow: &str, way: Way) -> anyhow::Result<Self> {
        let (wanted, started) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU64::new(0)));
        let mut callers = JoinSet::new();
        let (Way::Each(connections) | Way::Batch(connections)) = way;
        for _ in 0..connections {
            let connection = stage.connect().await?;
            let (wanted, started) = (Arc::clone(&wanted), Arc::clone(&started));
            match way {
                Way::Each(_) => {
                    let request = stage.start_request(workflow, "");
                    callers.spawn(start_each(connection, request, wanted, started));
                }
                Way::Batch(_) => {
                    let path = format!("/v1/workflows/{workflow}/runs/batch");
                    let requests = (1..=BATCH_RUNS_MAX).map(|runs| {
                        let body = format!("{{\"runs\":[{}]}}", vec!["{\"input\":{\"n\":1}}"; runs].join(","));
                        stage.request(&path, &body)
                    });
                    callers.spawn(start_batches(connection, requests.collect(), wanted, started));
                }
            }
        }
        Ok(Self { wanted, started, callers })
    }

    /// Requests this number of further starts.
    pub(super) fn start(&self, runs: usize) {
        self.wanted.add_permits(runs);
    }

    /// The number of runs started so far.
    pub(super) fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Waits until this number of runs is started.
    pub(super) async fn until(&mut self, runs: u64) -> anyhow::Result<()> {
        while self.started() < runs {
            self.check()?;
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// Reports a failed start.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        self.callers.try_join_next().map_or(Ok(()), |failed| failed?)
    }
}

async fn start_each(
    mut connection: Connection,
    request: Vec<u8>,
    wanted: Arc<Semaphore>,
    started: Arc<AtomicU64>,
) -> anyhow::Result<()> {
    loop {
        wanted.acquire().await?.forget();
        let Answer { status, body } = connection.ask(&request).await?;
        ensure!(status == 201, "no run: {status} {body}");
        started.fetch_add(1, Ordering::Relaxed);
    }
}

async fn start_batches(
    mut connection: Connection,
    requests: Vec<Vec<u8>>,
    wanted: Arc<Semaphore>,
    started: Arc<AtomicU64>,
) -> anyhow::Result<()> {
    loop {
        wanted.acquire().await?.forget();
        let runs = 1 + wanted.forget_permits(BATCH_RUNS_MAX - 1);
        let Answer { status, body } = connection.ask(&requests[runs - 1]).await?;
        ensure!(status == 200, "not all runs: {status} {body}");
        started.fetch_add(runs as u64, Ordering::Relaxed);
    }
}
