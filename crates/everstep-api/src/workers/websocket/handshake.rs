//! The first frame of a socket: a hello, which opens a session, or a resume, which continues one.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message as Frame, Utf8Bytes, WebSocket};
use everstep_engine::Session;
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use serde::Deserialize;
use tokio::time::timeout;

use super::outgoing::SocketEnd;
use super::reader::{audit_session, binary_frame, decode};
use crate::auth::Caller;
use crate::http::problem::Problem;
use crate::run_deadline::within_store_deadline;
use crate::server::AppState;
use crate::workers::hello::{self, Hello};
use crate::workers::sessions;

/// The time limit for the first frame, and for opening the session.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FirstFrame {
    hello: Option<Hello>,
    resume: Option<Resume>,
}

/// Continues a session after its socket was lost.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Resume {
    session: String,
    seen: u64,
    capacity: Option<usize>,
}

/// Reads the first frame, and opens or finds the session.
pub(super) async fn handshake(
    app: &AppState,
    caller: &Caller,
    stream: &mut SplitStream<WebSocket>,
) -> Result<Arc<Session>, SocketEnd> {
    let silent = Problem::invalid(format!("no frame was received within {} s", HANDSHAKE_TIMEOUT.as_secs()));
    let text = in_time(first_text(stream), silent).await?;
    // A worker without a response reconnects after this time: a session that is opened later would have no worker.
    let slow = Problem::unavailable("the session could not be opened in time");
    in_time(open_session(app, caller, &text), slow).await
}

async fn in_time<T>(work: impl Future<Output = Result<T, SocketEnd>>, problem: Problem) -> Result<T, SocketEnd> {
    timeout(HANDSHAKE_TIMEOUT, work).await.unwrap_or_else(|_| Err(SocketEnd::problem(&problem)))
}

async fn first_text(stream: &mut SplitStream<WebSocket>) -> Result<Utf8Bytes, SocketEnd> {
    loop {
        match stream.next().await {
            Some(Ok(Frame::Text(text))) => return Ok(text),
            Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => {}
            Some(Ok(Frame::Binary(_))) => return Err(SocketEnd::problem(&binary_frame())),
            Some(Ok(Frame::Close(_)) | Err(_)) | None => return Err(SocketEnd::Disconnected),
        }
    }
}

/// Opens a session, or finds the one that is resumed.
async fn open_session(app: &AppState, caller: &Caller, text: &str) -> Result<Arc<Session>, SocketEnd> {
    let first: FirstFrame = decode(text).map_err(|problem| SocketEnd::problem(&problem))?;
    match first {
        FirstFrame { hello: Some(hello), resume: None } => {
            let hello = hello.check(caller.workspace, &*app.engine.world().evaluate);
            let hello = hello.map_err(|problem| SocketEnd::problem(&problem))?;
            let opened = within_store_deadline(app, app.engine.open_session(hello)).await;
            let session = opened.map_err(|problem| SocketEnd::problem(&problem))?;
            audit_session(app, caller, "open", &session).await;
            Ok(session)
        }
        FirstFrame { hello: None, resume: Some(Resume { session, seen, capacity }) } => {
            let found = sessions::find_local(&app.engine, caller.workspace, &session);
            let session = found.map_err(|problem| SocketEnd::gone(&problem))?;
            app.engine.heard(&session);
            if let Some(capacity) = capacity {
                hello::check_capacity(capacity).map_err(|problem| SocketEnd::problem(&problem))?;
                app.engine.set_capacity(&session, capacity);
            }
            session.seen(seen);
            Ok(session)
        }
        FirstFrame { .. } => {
            let detail = "the first frame is {\"hello\": …} or {\"resume\": …}";
            Err(SocketEnd::problem(&Problem::invalid(detail)))
        }
    }
}
