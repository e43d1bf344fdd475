//! `/v1/runs/wait`: one request that waits for many runs.
//!
//! 1. The first event is sent at once: a client that does not receive it is behind a proxy that withholds streams.
//! 2. Each run is sent once, when it has ended or is paused; or the reason why it cannot be read.
//! 3. The response ends after the last run, or after `waitSeconds`. The client requests the other runs again.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use everstep_core::ids::RunId;
use everstep_core::status::Status;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::show;
use super::wire::{Run, UnreadableRun, WaitingRuns};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::resources::machines;
use crate::server::AppState;

/// With so many ids, the address of the request is shorter than 8 KiB, as proxies demand.
const RUNS_MAX: usize = 200;
/// The seconds for which a response is open, unless the client sets them.
const SECONDS_DEFAULT: u64 = 30;
/// Chunks that wait for the connection.
const QUEUED_CHUNKS_MAX: usize = 16;
/// A chunk of at least this many bytes is sent without further events.
const CHUNK_BYTES: usize = 64 * 1024;
/// A client that reads nothing for this long is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter::sized("ids", 1, 8_192, "The ids of the runs, separated by commas; at most 200.").required(),
    Parameter::whole("waitSeconds", 0, 30, "End the response after this many seconds; 30 by default."),
];

pub(crate) async fn wait(State(app): State<AppState>, caller: Caller, query: Query) -> Result<Response, Problem> {
    let ids = read_ids(query.text("ids").unwrap_or_default())?;
    let seconds = Duration::from_secs(query.number("waitSeconds").unwrap_or(SECONDS_DEFAULT));
    let slot = app.hub.slots.take_slot(&caller)?;
    let (sender, mut receiver) = mpsc::channel(QUEUED_CHUNKS_MAX);
    tokio::spawn(async move {
        let _slot = slot;
        let stopped = app.hub.stopped();
        tokio::select! {
            _ = timeout(seconds + WRITE_TIMEOUT, send_all(&app, &caller, ids, seconds, &sender)) => {}
            () = stopped => {}
            () = sender.closed() => {}
        }
    });
    let body =
        futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx).map(|bytes| bytes.map(Ok::<_, Infallible>)));
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

fn read_ids(text: &str) -> Result<Vec<RunId>, Problem> {
    let mut ids = Vec::new();
    for word in text.split(',') {
        let Ok(id) = word.parse::<RunId>() else {
            return Err(Problem::invalid(format!(
                "the query parameter \"ids\" is not valid: {word:?} is not the id of a run"
            )));
        };
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    if ids.len() > RUNS_MAX {
        let hint = "send several requests";
        return Err(Problem::invalid(format!("ids has more than {RUNS_MAX} runs")).hint(hint));
    }
    Ok(ids)
}

/// The client has disconnected.
struct Gone;

async fn send_all(
    app: &AppState,
    caller: &Caller,
    ids: Vec<RunId>,
    seconds: Duration,
    sender: &mpsc::Sender<Bytes>,
) -> Result<(), Gone> {
    send(sender, event("waiting", &WaitingRuns { runs: ids.len() })).await?;
    let runs: FuturesUnordered<_> = ids.into_iter().map(|id| read_when_halted(app, caller, id, seconds)).collect();
    let mut runs = runs.ready_chunks(RUNS_MAX);
    while let Some(mut halted) = runs.next().await {
        // A commit contains the ends of many runs, which are reported one after the other: they are sent together.
        tokio::task::yield_now().await;
        halted.extend(runs.next().now_or_never().flatten().into_iter().flatten());
        let mut events = String::new();
        for (id, read) in halted {
            events.extend(halt_event(id, read));
            if events.len() >= CHUNK_BYTES {
                send(sender, std::mem::take(&mut events)).await?;
            }
        }
        if !events.is_empty() {
            send(sender, events).await?;
        }
    }
    Ok(())
}

/// The event of a run; none if the time has passed.
fn halt_event(id: RunId, read: Result<Option<Run>, Problem>) -> Option<String> {
    match read {
        Ok(run) => run.map(|run| event("run", &run)),
        Err(problem) => Some(event("unreadable", &UnreadableRun::new(id, &problem))),
    }
}

/// A run when it has ended or is paused; none if it does neither in time.
async fn read_when_halted(
    app: &AppState,
    caller: &Caller,
    id: RunId,
    seconds: Duration,
) -> (RunId, Result<Option<Run>, Problem>) {
    let read = async {
        machines::check_reader(app, caller, id).await?;
        if seconds.is_zero() {
            let row = show::row(app, caller.workspace, id).await?;
            let has_halted = row.ended_at.is_some() || row.status == Status::Paused;
            return if has_halted { show::show(app, row).await.map(Some) } else { Ok(None) };
        }
        match timeout(seconds, app.engine.wait_for_halt(caller.workspace, None, id)).await {
            Ok(halted) => show::show_halted(app, halted?).await.map(Some),
            Err(_) => Ok(None),
        }
    };
    (id, read.await)
}

async fn send(sender: &mpsc::Sender<Bytes>, text: String) -> Result<(), Gone> {
    let sent = timeout(WRITE_TIMEOUT, sender.send(Bytes::from(text))).await;
    sent.map_err(|_| Gone)?.map_err(|_| Gone)
}

fn event(name: &str, data: &impl Serialize) -> String {
    format!("event: {name}\ndata: {}\n\n", serde_json::to_string(data).expect("a document is plain data"))
}
