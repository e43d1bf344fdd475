//! Clients that move runs, each one request after the other, and the times of their requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future;
use tokio::task::JoinSet;

use super::client::{Client, MachineRun};
use super::sink::Sink;
use super::stage::Stage;
use crate::bench::cases::meter::Taken;
use crate::bench::figure::{millis, quantile};

/// A client with the runs that it moves in turns.
pub(super) struct Mover {
    client: Client,
    runs: Vec<MachineRun>,
    next: usize,
}

/// The requests that began and were answered in a period, and the webhooks that arrived in it.
pub(super) struct Traffic {
    times: Vec<Duration>,
    webhooks: u64,
    pub(super) taken: Taken,
}

impl Mover {
    /// Clients with runs of a workflow that wait in the database.
    pub(super) async fn prepare(
        stage: &Stage,
        workflow: &'static str,
        clients: usize,
        runs: usize,
    ) -> anyhow::Result<Vec<Self>> {
        let movers = (0..clients).map(|_| async {
            let mut client = stage.client_of(workflow).await?;
            let runs = client.start_batch(runs).await?;
            anyhow::Ok(Self { client, runs, next: 0 })
        });
        let movers = future::try_join_all(movers).await?;
        stage.server.until_idle().await?;
        Ok(movers)
    }

    /// Moves the next run.
    pub(super) async fn act(&mut self) -> anyhow::Result<Duration> {
        let place = self.next % self.runs.len();
        self.next += 1;
        let asked = Instant::now();
        self.client.act(&mut self.runs[place]).await?;
        Ok(asked.elapsed())
    }

    /// Moves runs until a signal. Returns when each request began, and how long it took.
    async fn act_until(mut self, is_over: Arc<AtomicBool>) -> anyhow::Result<(Self, Vec<(Instant, Duration)>)> {
        let mut times = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let began = Instant::now();
            times.push((began, self.act().await?));
        }
        Ok((self, times))
    }
}

/// All clients work for a sample, after a warm-up of a quarter of its length.
pub(super) async fn drive(
    stage: &Stage,
    movers: Vec<Mover>,
    length: Duration,
    sink: &Sink,
) -> anyhow::Result<(Vec<Mover>, Traffic)> {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut working = JoinSet::new();
    for mover in movers {
        working.spawn(mover.act_until(Arc::clone(&is_over)));
    }
    tokio::time::sleep(length / 4).await;
    let (meter, before, begin) = (stage.meter()?, sink.received(), Instant::now());
    tokio::time::sleep(length).await;
    let (taken, after, end) = (meter.read()?, sink.received(), Instant::now());
    is_over.store(true, Ordering::Relaxed);
    let (mut movers, mut times) = (Vec::new(), Vec::new());
    while let Some(mover) = working.join_next().await {
        let (mover, measured) = mover??;
        movers.push(mover);
        let in_period = measured.into_iter().filter(|(began, time)| *began >= begin && *began + *time <= end);
        times.extend(in_period.map(|(_, time)| time));
    }
    Ok((movers, Traffic { times, webhooks: after - before, taken }))
}

impl Traffic {
    pub(super) fn transitions_per_second(&self) -> f64 {
        self.times.len() as f64 / self.taken.time.as_secs_f64()
    }

    pub(super) fn deliveries_per_second(&self) -> f64 {
        self.webhooks as f64 / self.taken.time.as_secs_f64()
    }

    /// The 95th percentile of a request, in milliseconds.
    pub(super) fn p95(&mut self) -> f64 {
        millis(quantile(&mut self.times, 0.95))
    }

    /// Microseconds of the server's processor time for each transition.
    pub(super) fn server_cpu(&self) -> f64 {
        self.taken.server.as_secs_f64() * 1e6 / self.times.len().max(1) as f64
    }
}
