//! W6: from a cold start to the end of the first run: a server on a fresh database, and a worker.

use std::time::Instant;

use anyhow::ensure;

use super::worker::{Carrier, Worker};
use crate::bench::args::Plan;
use crate::bench::cases::case::SAMPLES;
use crate::bench::cases::server::Server;
use crate::bench::connection::{self, Answer, Connection};
use crate::bench::figure::{Figure, Figures, median, millis};
use crate::bench::ground::Scratch;
use crate::bench::report;

/// The figure varies more than others and is measured quickly.
const TIMES: usize = 3 * SAMPLES;

pub(super) async fn measure(plan: &Plan, part: &'static str) -> anyhow::Result<Vec<Figure>> {
    let (mut server, mut first) = (Vec::new(), Vec::new());
    for sample in 1..=TIMES {
        report::tell(&format!("{part}: sample {sample} of {TIMES}"));
        let [listens, ended] = measure_one(plan).await?;
        server.push(listens);
        first.push(ended);
    }
    let figures = Figures::new(part, plan.site.name(), 1).with("firstRun", median(first), "ms").with(
        "serverListens",
        median(server),
        "ms",
    );
    Ok(figures.list())
}

/// The worker is started when the server listens, and the run at the same time: the run waits for the worker.
async fn measure_one(plan: &Plan) -> anyhow::Result<[f64; 2]> {
    let scratch = Scratch::new(&plan.site).await?;
    let began = Instant::now();
    let server = Server::start(&scratch.site()).await?;
    let listens = millis(began.elapsed());
    let worker = Worker::start(&plan.kit, &server, Carrier::Socket, 1)?;
    let request = connection::post(
        &server.address,
        &server.key,
        "/v1/workflows/chain/runs?waitSeconds=30",
        "{\"input\":{\"n\":1},\"allowUnserved\":true}",
    );
    let mut connection = Connection::open(&server.address).await?;
    let Answer { status, body } = connection.ask(&request).await?;
    let ended = millis(began.elapsed());
    ensure!(status == 201 && body.contains("\"completed\""), "no run: {status} {body}");
    tokio::task::spawn_blocking(move || drop((worker, server))).await?;
    scratch.remove().await?;
    Ok([listens, ended])
}
