//! The rate of a client over HTTP, compared with that of the engine in its own process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use tokio::task::JoinSet;

use super::case::SAMPLES;
use crate::bench::args::{Plan, Site};
use crate::bench::connection::{Answer, Connection};
use crate::bench::drive::{self, Load, Pace};
use crate::bench::figure::{Figure, Figures, median};
use crate::bench::remote::Remote;
use crate::bench::shapes::{self, CHAIN};
use crate::bench::{connection, ground, report};

/// The number of clients that start a run, wait for its end, and start the next.
const CLIENTS: usize = 64;

/// Alternates between clients of the engine in this process, and clients with a connection each.
pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let (mut direct, mut remote) = (Vec::new(), Vec::new());
    for sample in 1..=SAMPLES {
        report::tell(&format!("http: sample {sample} of {SAMPLES}"));
        direct.push(measure_direct(&plan.site, plan.length).await?);
        remote.push(measure_remote(&plan.site, plan.length).await?);
    }
    let rate = |paces: &[Pace]| median(paces.iter().map(|pace| pace.per_second).collect());
    let work = |paces: &[Pace]| median(paces.iter().map(|pace| pace.work).collect());
    let figures = Figures::new("http", plan.site.name(), CLIENTS)
        .with("runsPerSecond", rate(&remote), "1/s")
        .with("directRunsPerSecond", rate(&direct), "1/s")
        .with("httpOfDirect", rate(&remote) / rate(&direct), "ratio")
        .with("cpuPerRun", work(&remote), "us")
        .with("directCpuPerRun", work(&direct), "us");
    Ok(figures.list())
}

async fn measure_direct(site: &Site, length: Duration) -> anyhow::Result<Pace> {
    let load = Load::new(CHAIN.name, CLIENTS, length);
    ground::sample(site, move |stores| async move {
        let engine = ground::start_engine(stores, CHAIN.name, &(CHAIN.graph)()).await?;
        drive::run_to_end(&engine, &load).await
    })
    .await
}

async fn measure_remote(site: &Site, length: Duration) -> anyhow::Result<Pace> {
    ground::sample(site, move |stores| async move {
        let engine = ground::start_engine(stores.clone(), CHAIN.name, &(CHAIN.graph)()).await?;
        let remote = Remote::serve(&engine, stores).await?;
        let ended = Arc::new(AtomicU64::new(0));
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let request = request(&remote.address, &remote.key);
            clients.spawn(keep_asking(remote.address.clone(), request, Arc::clone(&ended)));
        }
        let pace = drive::sample(&ended, length).await?;
        if let Some(failed) = clients.try_join_next() {
            failed??;
        }
        clients.shutdown().await;
        engine.stop(drive::END_TIMEOUT).await?;
        remote.end();
        Ok(pace)
    })
    .await
}

/// Starts a run and waits for its end, in one request.
fn request(address: &str, key: &str) -> Vec<u8> {
    let path = format!("/v1/workflows/{}/runs?waitSeconds=30", CHAIN.name);
    connection::post(address, key, &path, &json!({"input": shapes::input()}).to_string())
}

/// Sends a request repeatedly on one connection until it is aborted.
async fn keep_asking(address: String, request: Vec<u8>, ended: Arc<AtomicU64>) -> anyhow::Result<()> {
    let mut connection = Connection::open(&address).await?;
    loop {
        let Answer { status, body } = connection.ask(&request).await?;
        ensure!(status == 201 && body.contains("\"completed\""), "no run: {status} {body}");
        ended.fetch_add(1, Ordering::Relaxed);
    }
}
