//! The rate of events that clients publish over HTTP, many in each request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use super::stage::{Stage, TOPIC};
use crate::bench::args::{Plan, Site};
use crate::bench::connection::{self, Answer, Connection};
use crate::bench::drive::{self, Pace};
use crate::bench::figure::{Figure, Figures, median};
use crate::bench::remote::Remote;
use crate::bench::{ground, report};

const CLIENTS: usize = 8;
/// Events of one request.
const BATCH_EVENTS: usize = 100;

pub(super) async fn measure(plan: &Plan, name: &str) -> anyhow::Result<Vec<Figure>> {
    let mut paces: Vec<Pace> = Vec::new();
    for sample in 1..=plan.samples {
        report::tell(&format!("{name}: sample {sample} of {}", plan.samples));
        paces.push(measure_rate(&plan.site, plan.length).await?);
    }
    let figures = Figures::new(name, plan.site.name(), CLIENTS)
        .with("publishesPerSecond", median(paces.iter().map(|pace| pace.per_second).collect()), "1/s")
        .with("cpuPerPublish", median(paces.iter().map(|pace| pace.work).collect()), "us");
    Ok(figures.list())
}

async fn measure_rate(site: &Site, length: Duration) -> anyhow::Result<Pace> {
    ground::sample(site, move |stores| async move {
        let stage = Stage::set(stores.clone(), &[]).await?;
        let remote = Remote::serve(&stage.engine, stores).await?;
        let published = Arc::new(AtomicU64::new(0));
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let request = request(&remote.address, &remote.key);
            clients.spawn(keep_publishing(remote.address.clone(), request, Arc::clone(&published)));
        }
        let pace = drive::sample(&published, length).await?;
        if let Some(failed) = clients.try_join_next() {
            failed??;
        }
        clients.shutdown().await;
        stage.end().await?;
        remote.end();
        Ok(pace)
    })
    .await
}

/// Events without ids: each request publishes new ones.
fn request(address: &str, key: &str) -> Vec<u8> {
    let event = json!({"topic": TOPIC, "data": {"order": 17, "amount": 40}});
    let body = json!({"events": vec![event; BATCH_EVENTS]}).to_string();
    connection::post(address, key, "/v1/events", &body)
}

/// Sends a request repeatedly on one connection until it is aborted.
async fn keep_publishing(address: String, request: Vec<u8>, published: Arc<AtomicU64>) -> anyhow::Result<()> {
    let mut connection = Connection::open(&address).await?;
    loop {
        let Answer { status, body } = connection.ask(&request).await?;
        anyhow::ensure!(status == 202, "events were not published: {status} {body}");
        published.fetch_add(BATCH_EVENTS as u64, Ordering::Relaxed);
    }
}
