//! Reads the frames of a worker.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message as Frame, WebSocket};
use everstep_core::decode::describe_error;
use everstep_engine::Session;
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at, timeout};

use super::outgoing::{OutgoingFrame, SocketEnd, close_code};
use crate::audit;
use crate::auth::{self, Caller, Permission};
use crate::http::problem::Problem;
use crate::server::AppState;
use crate::stream::KEY_CHECK_INTERVAL;
use crate::workers::backpressure::wait_for_room;
use crate::workers::hello;
use crate::workers::report::WireReport;
use crate::workers::reports::Reports;

/// A worker that reads nothing for this long gets no pong.
const PONG_TIMEOUT: Duration = Duration::from_secs(30);

/// A frame of a worker after the first one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WorkerFrame<R> {
    seen: Option<u64>,
    reports: Option<R>,
    capacity: Option<usize>,
    ping: Option<bool>,
    bye: Option<bool>,
}

impl<R> WorkerFrame<R> {
    /// The frame without its reports.
    fn without_reports(self) -> WorkerFrame<()> {
        let Self { seen, capacity, ping, bye, .. } = self;
        WorkerFrame { seen, reports: None, capacity, ping, bye }
    }
}

pub(super) struct Reader {
    pub(super) app: AppState,
    pub(super) caller: Caller,
    pub(super) session: Arc<Session>,
    pub(super) carrier: u64,
    pub(super) outgoing: mpsc::Sender<OutgoingFrame>,
}

impl Reader {
    /// Reads frames until the socket or the session ends, the key becomes invalid, or the server stops.
    pub(super) async fn run(&mut self, stream: &mut SplitStream<WebSocket>) -> SocketEnd {
        let hub = Arc::clone(&self.app.hub);
        let mut stopped = std::pin::pin!(hub.stopped());
        let mut key_check = interval_at(Instant::now() + KEY_CHECK_INTERVAL, KEY_CHECK_INTERVAL);
        loop {
            let processed = tokio::select! {
                frame = stream.next() => self.receive(frame).await,
                _ = key_check.tick() => self.check_key().await,
                () = &mut stopped => Err(SocketEnd::close(close_code::STOPPING, "the server stops")),
            };
            if let Err(end) = processed {
                return end;
            }
        }
    }

    async fn receive(&mut self, frame: Option<Result<Frame, axum::Error>>) -> Result<(), SocketEnd> {
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(_)) | None => return Err(SocketEnd::Disconnected),
        };
        if !self.session.is_carried_by(self.carrier) {
            // The writer closes the socket with the reason.
            return Err(SocketEnd::Disconnected);
        }
        self.app.engine.heard(&self.session);
        match frame {
            Frame::Text(text) => self.process(&text).await,
            Frame::Ping(_) | Frame::Pong(_) => Ok(()),
            Frame::Binary(_) => Err(SocketEnd::problem(&binary_frame())),
            Frame::Close(_) => Err(SocketEnd::Disconnected),
        }
    }

    async fn process(&mut self, text: &str) -> Result<(), SocketEnd> {
        // Usually every report is well-formed, and one pass decodes all of them.
        let (frame, reports) = match decode::<WorkerFrame<Vec<WireReport<'_>>>>(text) {
            Ok(mut frame) => {
                let reports = frame.reports.take().map(Reports::check_all);
                (frame.without_reports(), reports)
            }
            Err(_) => {
                let decoded = decode::<WorkerFrame<Vec<&RawValue>>>(text);
                let mut frame = decoded.map_err(|problem| SocketEnd::problem(&problem))?;
                let reports = frame.reports.take().map(Reports::decode_each);
                (frame.without_reports(), reports)
            }
        };
        let reports = reports.transpose().map_err(|problem| SocketEnd::problem(&problem))?;
        let engine = &self.app.engine;
        if let Some(seen) = frame.seen {
            self.session.seen(seen);
        }
        if let Some(capacity) = frame.capacity {
            hello::check_capacity(capacity).map_err(|problem| SocketEnd::problem(&problem))?;
            engine.set_capacity(&self.session, capacity);
        }
        if let Some(reports) = reports {
            wait_for_room(engine, &self.session).await.map_err(|problem| SocketEnd::problem(&problem))?;
            self.session.refuse(reports.refused);
            engine.report(&self.session, reports.accepted);
        }
        if frame.ping == Some(true) {
            let pong = OutgoingFrame::Text(Cow::Borrowed("{\"pong\":true}"));
            let _ = timeout(PONG_TIMEOUT, self.outgoing.send(pong)).await;
        }
        if frame.bye == Some(true) {
            engine.close_session(&self.session);
            audit_session(&self.app, &self.caller, "close", &self.session).await;
            return Err(SocketEnd::close(close_code::BYE, "goodbye"));
        }
        Ok(())
    }

    /// Checks that the API key is still valid. While the database does not reply, the key stays valid.
    async fn check_key(&self) -> Result<(), SocketEnd> {
        let now = self.app.engine.world().clock.now();
        match self.app.keys.find_again(&self.caller, now).await {
            Ok(Some(caller)) if caller.may(Permission::Serve) => Ok(()),
            Err(_) => Ok(()),
            Ok(Some(caller)) => Err(SocketEnd::key(&auth::lacks_permission(&caller, Permission::Serve))),
            Ok(None) => Err(SocketEnd::key(&auth::reject("the API key has expired or was revoked"))),
        }
    }
}

pub(super) fn binary_frame() -> Problem {
    Problem::invalid("a frame is binary; send text frames")
}

/// Decodes an object. An array with the values of its members in order is rejected.
pub(super) fn decode<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Problem> {
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Problem::invalid("a frame is not an object"));
    }
    serde_json::from_str(text)
        .map_err(|error| Problem::invalid(format!("a frame cannot be decoded: {}", describe_error(&error))))
}

/// Records in the audit that a session was opened or closed: the guard of the routes sees only the upgrade.
pub(super) async fn audit_session(app: &AppState, caller: &Caller, action: &'static str, session: &Session) {
    let details = serde_json::json!({"worker": audit::shorten(&session.worker), "session": session.id.shown()});
    audit::write_action(app, caller, &format!("worker socket {action}"), "/v1/worker/socket", details).await;
}
