//! Keeps a number of runs in flight: when one ends, the next is started.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_engine::{Engine, Start, StartDetail};
use serde_json::Value;
use tokio::task::JoinSet;

use super::{process, shapes};

/// The time for which a run may be silent before its row is read: it may have ended before it was watched.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// The maximum time by which a sample is extended until a run ends in it.
const EXTENSION_MAX: Duration = Duration::from_secs(30);
/// The maximum time for work in progress to end after a sample.
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(5);
const READ_BATCH_ENTRIES: usize = 1_000;

/// The runs to keep in flight.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) workflow: &'static str,
    pub(super) input: Value,
    pub(super) in_flight: usize,
    pub(super) length: Duration,
    /// Whether the input of each run has its number, as `n`.
    is_numbered: bool,
}

impl Load {
    /// Runs with the usual input.
    pub(super) fn new(workflow: &'static str, in_flight: usize, length: Duration) -> Self {
        Self { workflow, input: shapes::input(), in_flight, length, is_numbered: false }
    }

    /// The same, with a number in the input of each run.
    pub(super) fn numbered(self) -> Self {
        Self { is_numbered: true, ..self }
    }

    fn input_of(&self, number: u64) -> Value {
        let mut input = self.input.clone();
        if self.is_numbered {
            input["n"] = number.into();
        }
        input
    }
}

/// The result of a sample.
pub(super) struct Driven {
    pub(super) entries: Pace,
    /// The runs that ended, with the time from the request to the notification of their end.
    pub(super) ended: Vec<(RunId, Duration)>,
}

/// A rate, and its cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) per_second: f64,
    /// Microseconds of processor time for each, of the whole process. A busy machine changes it less than the rate.
    pub(super) work: f64,
}

impl Pace {
    pub(super) fn from_totals(count: u64, time: Duration, work: Duration) -> Self {
        let count = count as f64;
        Self { per_second: count / time.as_secs_f64(), work: work.as_secs_f64() * 1e6 / count.max(1.0) }
    }
}

#[derive(Default)]
struct Tally {
    started: AtomicU64,
    entries: AtomicU64,
    ended: Mutex<Vec<(RunId, Duration)>>,
}

/// Drives an engine for a sample, after a warm-up of a quarter of its length, and stops it.
pub(super) async fn drive(engine: &Engine, load: &Load) -> anyhow::Result<Driven> {
    let tally = Arc::new(Tally::default());
    let mut drivers = JoinSet::new();
    for _ in 0..load.in_flight {
        drivers.spawn(keep_running(engine.clone(), load.clone(), Arc::clone(&tally)));
    }
    tokio::time::sleep(load.length / 4).await;
    tally.ended.lock().expect("no holder of the lock panics").clear();
    let mut entries = pace_of(&tally.entries, load.length).await?;
    // A short sample on a busy machine may be over before a run has ended: the next one counts.
    let until = Instant::now() + EXTENSION_MAX;
    while tally.ended.lock().expect("no holder of the lock panics").is_empty() && Instant::now() < until {
        entries = pace_of(&tally.entries, load.length).await?;
    }
    let ended = std::mem::take(&mut *tally.ended.lock().expect("no holder of the lock panics"));
    if let Some(failed) = drivers.try_join_next() {
        failed??;
    }
    drivers.shutdown().await;
    engine.stop(END_TIMEOUT).await?;
    Ok(Driven { entries, ended })
}

/// Starts one run after the other until it is aborted.
async fn keep_running(engine: Engine, load: Load, tally: Arc<Tally>) -> anyhow::Result<()> {
    loop {
        let began = Instant::now();
        let input = load.input_of(tally.started.fetch_add(1, Ordering::Relaxed));
        let started = engine.start_run(Start::new(load.workflow, input)).await?;
        follow(&engine, started.run, &tally).await?;
        tally.ended.lock().expect("no holder of the lock panics").push((started.run, began.elapsed()));
    }
}

/// Counts a run's entries as they are committed, up to its last.
async fn follow(engine: &Engine, run: RunId, tally: &Tally) -> anyhow::Result<()> {
    let mut seen = 0;
    loop {
        let mut watch = engine.watch(run);
        let watching = async {
            while let Some(news) = watch.next().await {
                let seq = news.seq().unwrap_or(seen);
                tally.entries.fetch_add(seq - seen, Ordering::Relaxed);
                seen = seq;
            }
        };
        if tokio::time::timeout(SILENCE_MAX, watching).await.is_ok() {
            return Ok(());
        }
        let store = &engine.world().runs;
        let row = store.get_run(WorkspaceId::DEFAULT, run).await?;
        if row.is_some_and(|row| row.ended_at.is_some()) {
            let rest = store.journal(run, seen, READ_BATCH_ENTRIES).await?;
            tally.entries.fetch_add(rest.len() as u64, Ordering::Relaxed);
            return Ok(());
        }
    }
}

/// Starts runs for a sample without waiting for their ends, and stops the engine. Returns the rate of answered starts.
pub(super) async fn start_only(engine: &Engine, load: &Load) -> anyhow::Result<Pace> {
    let started = Arc::new(AtomicU64::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..load.in_flight {
        let (engine, load, started) = (engine.clone(), load.clone(), Arc::clone(&started));
        callers.spawn(async move {
            loop {
                if let Err(error) = engine.start_run(Start::new(load.workflow, load.input.clone())).await {
                    return error;
                }
                started.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let starts = sample(&started, load.length).await?;
    if let Some(failed) = callers.try_join_next() {
        return Err(failed?.into());
    }
    callers.shutdown().await;
    engine.stop(END_TIMEOUT).await?;
    Ok(starts)
}

/// Keeps runs in flight for a sample without reading their entries, and stops the engine. Returns the rate of their
/// ends.
pub(super) async fn run_to_end(engine: &Engine, load: &Load) -> anyhow::Result<Pace> {
    let ended = Arc::new(AtomicU64::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..load.in_flight {
        let (engine, load, ended) = (engine.clone(), load.clone(), Arc::clone(&ended));
        callers.spawn(async move {
            loop {
                let start = Start::new(load.workflow, load.input.clone());
                let started = engine.start_run(Start { detail: StartDetail::End, ..start }).await?;
                started.end.expect("the end was requested").halt().await?;
                ended.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let pace = sample(&ended, load.length).await?;
    if let Some(failed) = callers.try_join_next() {
        let failed: Result<(), everstep_engine::Error> = failed?;
        failed?;
    }
    callers.shutdown().await;
    engine.stop(END_TIMEOUT).await?;
    Ok(pace)
}

/// The rate of a counter, after a warm-up of a quarter of the sample's length.
pub(super) async fn sample(counter: &AtomicU64, length: Duration) -> anyhow::Result<Pace> {
    tokio::time::sleep(length / 4).await;
    pace_of(counter, length).await
}

/// The rate of a counter.
async fn pace_of(counter: &AtomicU64, length: Duration) -> anyhow::Result<Pace> {
    let (count, work, began) = (counter.load(Ordering::Relaxed), process::scheduled_time()?, Instant::now());
    tokio::time::sleep(length).await;
    let (count, time) = (counter.load(Ordering::Relaxed) - count, began.elapsed());
    Ok(Pace::from_totals(count, time, process::scheduled_time()?.saturating_sub(work)))
}
