//! D3: a page of 10,000 dead letters, and a requeue of all of them to a target that is up.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::{Value, json};

use super::sink::{Response, Sink};
use super::stage::{Machine, Stage, WORKFLOW};
use super::traffic::Mover;
use crate::bench::args::Plan;
use crate::bench::connection::{self, Connection};
use crate::bench::figure::{Figure, Figures, median, millis, quantile};

const LETTERS: usize = 10_000;
const QUICK_LETTERS: usize = 200;
/// The clients whose transitions make them.
const CLIENTS: usize = 16;
/// The pages that are read, each after the one before it, from the first again after the last.
const PAGES: usize = 400;
/// The maximum time until all dead letters exist.
const WRITE_TIMEOUT: Duration = Duration::from_secs(120);

struct Sample {
    page: [f64; 2],
    /// Requeues per second, from the request until the sink has received all of them.
    requeues: f64,
    foreign: f64,
}

pub(super) async fn measure(plan: &Plan, part: &'static str) -> anyhow::Result<Vec<Figure>> {
    let mut samples = Vec::new();
    for _ in super::samples(plan, part) {
        samples.push(take_sample(plan).await?);
    }
    let middle = |value: fn(&Sample) -> f64| median(samples.iter().map(value).collect());
    let figures = Figures::new(part, plan.site.name(), 1)
        .with("pageP50", middle(|sample| sample.page[0]), "ms")
        .with("pageP95", middle(|sample| sample.page[1]), "ms")
        .with("requeuesPerSecond", middle(|sample| sample.requeues), "1/s")
        .with("foreign", middle(|sample| sample.foreign) * 100.0, "%");
    Ok(figures.list())
}

async fn take_sample(plan: &Plan) -> anyhow::Result<Sample> {
    let letters = if plan.is_quick { QUICK_LETTERS } else { LETTERS };
    let sink = Sink::start("127.0.0.1", Response::Refuse).await?;
    let machine = Machine::with_single_attempt(WORKFLOW, &sink);
    let stage = Stage::set_with(plan, &[machine]).await?;
    write_letters(&stage, letters).await?;
    let mut connection = Connection::open(&stage.server.address).await?;
    let meter = stage.meter()?;
    let mut pages = read_pages(&stage, &mut connection).await?;
    sink.set(Response::Accept);
    let (before, began) = (sink.received(), Instant::now());
    let all = json!({"all": true}).to_string();
    let request = connection::post(&stage.server.address, &stage.server.key, "/v1/dead-letters/requeue", &all);
    let answer = connection.ask(&request).await?;
    let requeued: Value = serde_json::from_str(answer.body)?;
    ensure!(requeued["matched"] == letters, "not all dead letters were requeued: {requeued}");
    sink.wait_for(before + letters as u64).await?;
    let time = began.elapsed();
    let foreign = meter.read()?.foreign;
    stage.clear().await?;
    let page = [0.5, 0.95].map(|part| millis(quantile(&mut pages, part)));
    Ok(Sample { page, requeues: letters as f64 / time.as_secs_f64(), foreign })
}

/// Moves as many runs: each webhook has one attempt, which is refused.
async fn write_letters(stage: &Stage, letters: usize) -> anyhow::Result<()> {
    let share = letters.div_ceil(CLIENTS);
    let movers = Mover::prepare(stage, WORKFLOW, CLIENTS, share).await?;
    let work = movers.into_iter().enumerate().map(|(index, mut mover)| async move {
        for _ in (index * share)..((index + 1) * share).min(letters) {
            mover.act().await?;
        }
        anyhow::Ok(())
    });
    futures_util::future::try_join_all(work).await?;
    let mut connection = Connection::open(&stage.server.address).await?;
    let body = json!({"all": true, "dryRun": true}).to_string();
    let request = connection::post(&stage.server.address, &stage.server.key, "/v1/dead-letters/requeue", &body);
    let began = Instant::now();
    loop {
        let counted: Value = serde_json::from_str(connection.ask(&request).await?.body)?;
        if counted["matched"] == letters {
            return Ok(());
        }
        ensure!(began.elapsed() < WRITE_TIMEOUT, "not all webhooks have failed: {counted}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn read_pages(stage: &Stage, connection: &mut Connection) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(PAGES);
    let mut cursor: Option<String> = None;
    for _ in 0..PAGES {
        let after = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let path = format!("/v1/dead-letters?status=dead&limit=50{after}");
        let request = connection::get_with_key(&stage.server.address, &stage.server.key, &path);
        let asked = Instant::now();
        let answer = connection.ask(&request).await?;
        times.push(asked.elapsed());
        ensure!(answer.status == 200, "{path}: {} {}", answer.status, answer.body);
        let page: Value = serde_json::from_str(answer.body)?;
        cursor = page["nextCursor"].as_str().map(str::to_owned);
    }
    Ok(times)
}
