//! One socket, from its upgrade to its end.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::handshake::handshake;
use super::outgoing::{SocketEnd, send_last};
use super::reader::Reader;
use super::writer::Writer;
use crate::auth::Caller;
use crate::http::problem::Problem;
use crate::server::AppState;
use crate::workers::hello::Welcome;
use crate::workers::limits::REQUEST_BYTES_MAX;
use crate::workers::messages;

/// The time limit for the last frames and the close.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Frames besides messages that wait for the writer.
const OUTGOING_FRAMES_MAX: usize = 4;

pub(crate) async fn open(
    State(app): State<AppState>,
    caller: Caller,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = upgrade.map_err(|error| {
        let hint = "connect with a WebSocket, or use POST /v1/worker/sessions";
        let detail = format!("the request is not a WebSocket upgrade: {error}");
        Problem::new(StatusCode::UPGRADE_REQUIRED, "UPGRADE_REQUIRED", detail).hint(hint)
    })?;
    let upgrade = upgrade.max_message_size(REQUEST_BYTES_MAX).max_frame_size(REQUEST_BYTES_MAX);
    Ok(upgrade.on_upgrade(|socket| run(app, caller, socket)).into_response())
}

async fn run(app: AppState, caller: Caller, socket: WebSocket) {
    let (mut sink, mut stream) = socket.split();
    let session = match handshake(&app, &caller, &mut stream).await {
        Ok(session) => session,
        Err(SocketEnd::Frames(frames)) => return send_last(&mut sink, frames).await,
        Err(SocketEnd::Disconnected) => return,
    };
    let carrier = app.engine.attach(&session);
    let (outgoing, frames) = mpsc::channel(OUTGOING_FRAMES_MAX);
    let welcome = messages::object_with("welcome", &Welcome::to(&app.engine, &session));
    let writer = Writer { sink, session: Arc::clone(&session), carrier };
    let mut writer = tokio::spawn(writer.run(welcome, frames));
    let mut reader = Reader { app, caller, session, carrier, outgoing };
    let writer_has_ended = tokio::select! {
        end = reader.run(&mut stream) => {
            if let SocketEnd::Frames(frames) = end {
                for frame in frames {
                    // This fails if the writer has ended: then the worker has disconnected.
                    let _ = reader.outgoing.send(frame).await;
                }
            }
            false
        }
        // The writer has sent the reason.
        _ = &mut writer => true,
    };
    let Reader { app, session, outgoing, .. } = reader;
    session.detach(carrier, app.engine.world().clock.monotonic());
    drop(outgoing);
    if !writer_has_ended && timeout(CLOSE_TIMEOUT, &mut writer).await.is_err() {
        writer.abort();
    }
}
