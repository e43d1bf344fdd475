//! The rate of clients that write records over HTTP, compared with callers in the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everstep_core::records::{OpAction, SetRequest};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::ops::{NAMESPACE, counter};
use super::writers;
use crate::bench::args::{Plan, Site};
use crate::bench::connection::{self, Answer, Connection};
use crate::bench::drive::{self, Pace};
use crate::bench::figure::{Figure, Figures, median};
use crate::bench::remote::Remote;
use crate::bench::{ground, report, shapes};

const CLIENTS: usize = 64;

/// Alternates between callers of the engine in this process, and clients with a connection each.
pub(super) async fn measure(plan: &Plan, name: &str) -> anyhow::Result<Vec<Figure>> {
    let (mut direct, mut remote) = (Vec::new(), Vec::new());
    for sample in 1..=plan.samples {
        report::tell(&format!("{name}: sample {sample} of {}", plan.samples));
        direct.push(measure_direct(&plan.site, plan.length).await?);
        remote.push(measure_remote(&plan.site, plan.length).await?);
    }
    let rate = |paces: &[Pace]| median(paces.iter().map(|pace| pace.per_second).collect());
    let work = |paces: &[Pace]| median(paces.iter().map(|pace| pace.work).collect());
    let figures = Figures::new(name, plan.site.name(), CLIENTS)
        .with("putsPerSecond", rate(&remote), "1/s")
        .with("directPutsPerSecond", rate(&direct), "1/s")
        .with("httpOfDirect", rate(&remote) / rate(&direct), "ratio")
        .with("cpuPerPut", work(&remote), "us")
        .with("directCpuPerPut", work(&direct), "us");
    Ok(figures.list())
}

fn value() -> Value {
    json!({"status": "shipped", "attempt": 1})
}

async fn measure_direct(site: &Site, length: Duration) -> anyhow::Result<Pace> {
    let put = |caller: usize, _: usize| OpAction::Set(SetRequest::new(counter(caller), value()));
    ground::sample(site, move |stores| async move {
        let engine = ground::start_engine(stores, "nothing", &shapes::nothing()).await?;
        Ok(writers::write(&engine, CLIENTS, length, put).await?.pace)
    })
    .await
}

async fn measure_remote(site: &Site, length: Duration) -> anyhow::Result<Pace> {
    ground::sample(site, move |stores| async move {
        let engine = ground::start_engine(stores.clone(), "nothing", &shapes::nothing()).await?;
        let remote = Remote::serve(&engine, stores).await?;
        let written = Arc::new(AtomicU64::new(0));
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let path = format!("/v1/store/{NAMESPACE}/{}", counter(client));
            let body = json!({"value": value()}).to_string();
            let request = connection::put(&remote.address, &remote.key, &path, &body);
            clients.spawn(keep_writing(remote.address.clone(), request, Arc::clone(&written)));
        }
        let pace = drive::sample(&written, length).await?;
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

/// Sends a request repeatedly on one connection until it is aborted.
async fn keep_writing(address: String, request: Vec<u8>, written: Arc<AtomicU64>) -> anyhow::Result<()> {
    let mut connection = Connection::open(&address).await?;
    loop {
        let Answer { status, body } = connection.ask(&request).await?;
        anyhow::ensure!(matches!(status, 200 | 201), "a record was not written: {status} {body}");
        written.fetch_add(1, Ordering::Relaxed);
    }
}
