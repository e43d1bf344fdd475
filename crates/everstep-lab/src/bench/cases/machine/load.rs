//! T2: many clients, each of which starts runs, and then moves the runs that it has started.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use super::client::{Client, MachineRun};
use super::stage::Stage;
use crate::bench::args::Plan;
use crate::bench::cases::meter::Taken;
use crate::bench::figure::{Figure, Figures, median};

const CLIENTS: usize = 64;

/// A client with the runs that it has started.
struct Clerk {
    client: Client,
    runs: Vec<MachineRun>,
}

#[derive(Clone, Copy)]
enum Task {
    Start,
    Act,
}

/// The requests that were answered in a sample, and the processor time of each process.
struct Answered {
    requests: f64,
    taken: Taken,
}

struct Sample {
    starts: Answered,
    transitions: Answered,
}

pub(super) async fn measure(plan: &Plan, part: &'static str) -> anyhow::Result<Vec<Figure>> {
    let mut samples = Vec::new();
    for _ in super::samples(plan, part) {
        samples.push(take_sample(plan).await?);
    }
    let middle = |value: &dyn Fn(&Sample) -> f64| median(samples.iter().map(value).collect());
    let cpu = |time: fn(&Taken) -> Duration| middle(&|sample| sample.transitions.each(time));
    let mut figures = Figures::new(part, plan.site.name(), CLIENTS)
        .with("transitionsPerSecond", middle(&|sample| sample.transitions.rate()), "1/s")
        .with("startsPerSecond", middle(&|sample| sample.starts.rate()), "1/s")
        .with("transitionsOfStarts", middle(&|sample| sample.transitions.rate() / sample.starts.rate()), "ratio")
        .with("serverCpu", cpu(|taken| taken.server), "us");
    if samples.iter().all(|sample| sample.transitions.taken.database.is_some()) {
        figures = figures.with("databaseCpu", cpu(|taken| taken.database.unwrap_or_default()), "us");
    }
    let figures = figures
        .with("clientCpu", cpu(|taken| taken.client), "us")
        .with("startServerCpu", middle(&|sample| sample.starts.each(|taken| taken.server)), "us")
        .with("foreign", middle(&|sample| sample.transitions.taken.foreign) * 100.0, "%");
    Ok(figures.list())
}

async fn take_sample(plan: &Plan) -> anyhow::Result<Sample> {
    let stage = Stage::set(plan).await?;
    let clients = stage.clients(CLIENTS).await?;
    let clerks = clients.into_iter().map(|client| Clerk { client, runs: Vec::new() }).collect();
    let (clerks, starts) = work(&stage, clerks, Task::Start, plan.length).await?;
    stage.server.until_idle().await?;
    let (_, transitions) = work(&stage, clerks, Task::Act, plan.length).await?;
    stage.clear().await?;
    Ok(Sample { starts, transitions })
}

/// All clients work for a sample, after a warm-up of a quarter of its length.
async fn work(
    stage: &Stage,
    clerks: Vec<Clerk>,
    task: Task,
    length: Duration,
) -> anyhow::Result<(Vec<Clerk>, Answered)> {
    let (answers, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut working = JoinSet::new();
    for clerk in clerks {
        working.spawn(clerk.work(task, Arc::clone(&answers), Arc::clone(&is_over)));
    }
    tokio::time::sleep(length / 4).await;
    let (meter, before) = (stage.meter()?, answers.load(Ordering::Relaxed));
    tokio::time::sleep(length).await;
    let (taken, after) = (meter.read()?, answers.load(Ordering::Relaxed));
    is_over.store(true, Ordering::Relaxed);
    let mut clerks = Vec::new();
    while let Some(clerk) = working.join_next().await {
        clerks.push(clerk??);
    }
    Ok((clerks, Answered { requests: (after - before) as f64, taken }))
}

impl Clerk {
    async fn work(mut self, task: Task, answers: Arc<AtomicU64>, is_over: Arc<AtomicBool>) -> anyhow::Result<Self> {
        let mut next = 0;
        while !is_over.load(Ordering::Relaxed) {
            match task {
                Task::Start => self.runs.push(self.client.start().await?),
                Task::Act => {
                    let place = next % self.runs.len();
                    self.client.act(&mut self.runs[place]).await?;
                    next += 1;
                }
            }
            answers.fetch_add(1, Ordering::Relaxed);
        }
        Ok(self)
    }
}

impl Answered {
    fn rate(&self) -> f64 {
        self.requests / self.taken.time.as_secs_f64()
    }

    /// Microseconds of processor time for each request.
    fn each(&self, time: fn(&Taken) -> Duration) -> f64 {
        time(&self.taken).as_secs_f64() * 1e6 / self.requests.max(1.0)
    }
}
