//! The durations that a workspace observes, alone and beside another workspace that misuses the server.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use everstep_testkit::neighbours::{Misuse, Neighbours, Observation, Pace, settings};

use super::server::{self, Server};
use crate::bench::args::Plan;
use crate::bench::figure::{Figure, Figures, millis};
use crate::bench::ground::Scratch;
use crate::bench::report;

/// The time between two runs, and between two requests.
const INTERVAL: Duration = Duration::from_millis(40);
/// The promise: the p99 of a run of three nodes, and of a request, whatever another workspace does.
const RUN_P99_MAX: Duration = Duration::from_millis(500);
const CALL_P99_MAX: Duration = Duration::from_millis(300);

pub(super) async fn measure(plan: &Plan, misuse: Misuse) -> anyhow::Result<Vec<Figure>> {
    server::find_program()?;
    report::tell(misuse.case());
    let scratch = Scratch::new(&plan.site).await?;
    let sources = tempfile::tempdir()?;
    let server = Server::start_with(&scratch.site(), &settings(sources.path())).await?;
    let (address, key, folder) = (server.address.clone(), server.key.clone(), sources.path().to_owned());
    let pace = Pace { samples: (plan.length.as_millis() / INTERVAL.as_millis()) as usize, interval: INTERVAL };
    let observing = tokio::task::spawn_blocking(move || observe(&address, &key, &folder, misuse, pace));
    let (alone, beside) = observing.await??;
    tokio::task::spawn_blocking(move || drop(server)).await?;
    scratch.remove().await?;
    Ok(figures(plan.site.name(), misuse, &alone, &beside))
}

fn observe(
    address: &str,
    key: &str,
    folder: &Path,
    misuse: Misuse,
    pace: Pace,
) -> anyhow::Result<(Observation, Observation)> {
    let neighbours = Neighbours::create(address, key, folder)?;
    let alone = neighbours.observe(pace)?;
    let (beside, answers) = neighbours.observe_beside(misuse, pace)?;
    report::tell(&format!("{}: {answers}", misuse.case()));
    for refusal in beside.refusals.iter().take(3) {
        report::tell(&format!("refused: {refusal}"));
    }
    ensure!(answers.total() > 0, "the misuse {} has sent nothing", misuse.name());
    ensure!(alone.refusals.is_empty(), "a request was refused without a misuse: {}", alone.refusals[0]);
    Ok((alone, beside))
}

fn figures(store: &'static str, misuse: Misuse, alone: &Observation, beside: &Observation) -> Vec<Figure> {
    let of = |one: Duration, other: Duration| one.as_secs_f64() / other.as_secs_f64();
    let of_promise = of(beside.runs.p99(), RUN_P99_MAX).max(of(beside.calls.p99(), CALL_P99_MAX));
    Figures::new(misuse.case(), store, 0)
        .with("runAloneP99", millis(alone.runs.p99()), "ms")
        .with("runP99", millis(beside.runs.p99()), "ms")
        .with("callAloneP99", millis(alone.calls.p99()), "ms")
        .with("callP99", millis(beside.calls.p99()), "ms")
        .with(
            "ofAlone",
            of(beside.runs.p99(), alone.runs.p99()).max(of(beside.calls.p99(), alone.calls.p99())),
            "ratio",
        )
        .with("ofPromise", of_promise, "ratio")
        .with("refused", beside.refusals.len() as f64, "")
        .list()
}
