//! The good workspace: runs and requests at a steady rate, each on a connection of its own.
//!
//! The next one does not wait for the one before it, so that a slow server is measured as often as a fast one.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::samples::Samples;
use crate::connection::{self, Connection};

/// A request without a response counts as this long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How many runs and requests are measured, and the time between two of each.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub samples: usize,
    pub interval: Duration,
}

/// The durations that the good workspace has observed.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// From the request that starts a run to the response after its end.
    pub runs: Samples,
    /// Other requests.
    pub calls: Samples,
    /// Requests that were refused, or had no response.
    pub refusals: Vec<String>,
}

/// A request, and the status of its response.
#[derive(Clone, Debug)]
pub(super) struct Call {
    status: u16,
    request: Arc<[u8]>,
    is_stream: bool,
}

impl Call {
    pub(super) fn whole(status: u16, request: Vec<u8>) -> Self {
        Self { status, request: request.into(), is_stream: false }
    }

    /// A request whose response does not end.
    pub(super) fn stream(status: u16, request: Vec<u8>) -> Self {
        Self { is_stream: true, ..Self::whole(status, request) }
    }

    /// Opens a connection, sends the request, and reads the response.
    async fn perform(self, address: Arc<str>) -> anyhow::Result<()> {
        let mut connection = Connection::open(&address).await?;
        let (status, body) = if self.is_stream {
            (connection.open_stream(&self.request).await?, String::new())
        } else {
            let answer = connection.ask(&self.request).await?;
            (answer.status, answer.body.to_owned())
        };
        ensure!(status == self.status, "{status} {body}");
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Run,
    Call,
}

/// Measures plain runs, of which every second one is of another workflow if it is given, and calls. Contested calls are
/// every second call.
pub(super) async fn observe(
    address: &str,
    key: &str,
    contested: &[Call],
    workflow: &str,
    pace: Pace,
) -> anyhow::Result<Observation> {
    let usual = usual_calls(address, key);
    let runs = [super::site::PLAIN, workflow].map(|name| start(address, key, name));
    let address: Arc<str> = address.into();
    let mut samples = JoinSet::new();
    // Runs and calls alternate.
    let mut ticks = tokio::time::interval(pace.interval / 2);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for n in 0..pace.samples * 2 {
        ticks.tick().await;
        let turn = n / 2;
        let (kind, call) = match (n % 2, contested) {
            (0, _) => (Kind::Run, &runs[turn % 2]),
            (_, [_, ..]) if turn % 2 == 0 => (Kind::Call, &contested[turn / 2 % contested.len()]),
            _ => (Kind::Call, &usual[turn % usual.len()]),
        };
        samples.spawn(measure(kind, call.clone(), Arc::clone(&address)));
    }
    let (mut runs, mut calls, mut refusals) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(sample) = samples.join_next().await {
        let (kind, took, refusal) = sample?;
        let durations = if kind == Kind::Run { &mut runs } else { &mut calls };
        durations.push(took);
        refusals.extend(refusal);
    }
    Ok(Observation { runs: Samples::new(runs), calls: Samples::new(calls), refusals })
}

async fn measure(kind: Kind, call: Call, address: Arc<str>) -> (Kind, Duration, Option<String>) {
    let line = call.request.split(|byte| *byte == b'\r').next().map(String::from_utf8_lossy).unwrap_or_default();
    let line = line.into_owned();
    let began = Instant::now();
    let performed = tokio::time::timeout(ANSWER_TIMEOUT, call.perform(address)).await;
    let refusal = match performed {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("{line}: {error:#}")),
        Err(_) => Some(format!("{line}: no response within {} s", ANSWER_TIMEOUT.as_secs())),
    };
    (kind, began.elapsed(), refusal)
}

/// Starts a run and waits for its end, in one request.
fn start(address: &str, key: &str, workflow: &str) -> Call {
    let path = format!("/v1/workflows/{workflow}/runs?waitSeconds=30");
    Call::whole(201, connection::post(address, key, &path, "{}"))
}

/// Reads and writes of every part of the API that a workspace without a special purpose uses.
fn usual_calls(address: &str, key: &str) -> Vec<Call> {
    let get = |path: &str| Call::whole(200, connection::get_with_key(address, key, path));
    vec![
        get("/v1/me"),
        Call::whole(200, connection::put(address, key, "/v1/store/settings/first", r#"{"value": 2}"#)),
        get("/v1/runs?limit=20"),
        get("/v1/workflows?limit=20"),
        Call::whole(202, connection::post(address, key, "/v1/topics/good.news", r#"{"n": 1}"#)),
        get("/v1/store/settings/first"),
        get(&format!("/v1/workflows/{}", super::site::PLAIN)),
        get("/livez"),
    ]
}
