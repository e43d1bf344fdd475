//! `/v1/runs/{id}/events`: a run as server-sent events.
//!
//! 1. A client that does not name an entry receives a `snapshot`, whose id is the seq of its last entry, and then the
//!    later entries.
//! 2. Every entry is an `entry` with its seq as id. A client that reconnects with the last id misses nothing.
//! 3. `status` follows the last entry of an item that has changed the run's status.
//! 4. After the last entry of a run that has ended, `end` is sent and the stream is closed. A client that reconnects
//!    after that receives 204, which makes a browser stop reconnecting.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use everstep_core::status::Status;
use everstep_engine::{Follower, JournalEntry};
use futures_util::stream;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at, timeout};

use super::feed::JoinedRun;
use super::pass::{self, KEY_CHECK_INTERVAL};
use super::wire::{EndEvent, SnapshotEvent, StatusEvent};
use crate::auth::{Caller, TICKET};
use crate::http::headers;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::resources::runs;
use crate::resources::runs::wire::{Entry, Run};
use crate::server::AppState;

/// The milliseconds after which a client that has lost its stream reconnects.
const RECONNECT_AFTER_MS: u32 = 1_000;
/// A client that reads nothing for this long is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Messages that wait for the connection.
const QUEUED_MESSAGES_MAX: usize = 4;

pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter::whole(
        "after",
        0,
        i64::MAX as u64,
        "Entries after this one, without a snapshot; the header takes precedence.",
    ),
    Parameter::text(TICKET, "A ticket instead of an API key, for browsers: `POST /v1/tickets`."),
];

pub(crate) async fn events(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let id = runs::read_id(&id)?;
    let after = after(&query, &headers)?;
    let slot = app.hub.slots.take_slot(Some(caller.number()))?;
    let joined = JoinedRun::load(&app, caller.workspace, id).await?;
    if let Some(after) = after {
        joined.check(after)?;
        if after == joined.seq && joined.status().has_ended() {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
    let seq = joined.seq;
    let (run, follower) = joined.follow(&app, caller.workspace, after.unwrap_or(seq));
    let (sender, mut receiver) = mpsc::channel(QUEUED_MESSAGES_MAX);
    let run = after.is_none().then_some(run);
    tokio::spawn(async move {
        let _slot = slot;
        let sent = run.as_ref().map(|_| follower.status());
        Stream { sent, follower, sender, seq }.run(&app, &caller, run).await;
    });
    let body = stream::poll_fn(move |cx| receiver.poll_recv(cx).map(|bytes| bytes.map(Ok::<_, Infallible>)));
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// The beginning of the stream. A browser that reconnects sends the header with its original address.
fn after(query: &Query, headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(text) = headers::once(headers, "last-event-id")?.filter(|text| !text.is_empty()) else {
        return query.number("after", 0..=i64::MAX as u64);
    };
    let number = text.parse::<i64>().ok().and_then(|number| u64::try_from(number).ok());
    let detail = || Problem::invalid(format!("the header Last-Event-ID is not valid: {text:?}"));
    number.map(Some).ok_or_else(|| detail().hint("send the id of the last received event"))
}

struct Stream {
    follower: Follower,
    /// The status that was sent last.
    sent: Option<Status>,
    /// The seq of the last entry that was part of the run when the stream began.
    seq: u64,
    sender: mpsc::Sender<Bytes>,
}

/// The client has disconnected.
struct Gone;

impl Stream {
    /// Sends everything, until the run ends, the client disconnects, or it loses its permission.
    async fn run(mut self, app: &AppState, caller: &Caller, run: Option<Run>) {
        let (now, hub) = (Instant::now(), &app.hub);
        // A comment prevents proxies from closing an idle connection.
        let mut heartbeat = interval_at(now + hub.heartbeat, hub.heartbeat);
        let mut look = interval_at(now + KEY_CHECK_INTERVAL, KEY_CHECK_INTERVAL);
        let sender = self.sender.clone();
        let sending = async {
            self.begin(run).await?;
            loop {
                let entry = tokio::select! {
                    entry = self.follower.next() => entry,
                    _ = heartbeat.tick() => {
                        self.send(":\n\n".to_owned()).await?;
                        continue;
                    }
                };
                match entry {
                    Some(entry) => self.send_entry(entry).await?,
                    None => return self.end().await,
                }
            }
        };
        let refused = async {
            loop {
                look.tick().await;
                if !pass::holds(app, caller).await {
                    return;
                }
            }
        };
        tokio::select! {
            _ = sending => {}
            () = refused => {}
            () = hub.stopped() => {}
            () = sender.closed() => {}
        }
    }

    async fn begin(&mut self, run: Option<Run>) -> Result<(), Gone> {
        self.send(format!("retry: {RECONNECT_AFTER_MS}\n\n")).await?;
        match run {
            Some(run) => {
                let shown = SnapshotEvent { run, context: self.follower.context() };
                self.send(event(Some(self.seq), "snapshot", &shown)).await
            }
            // The client has all entries and needs only the status.
            None if self.follower.after() == self.seq => self.send_status(self.seq).await,
            None => Ok(()),
        }
    }

    async fn send_entry(&mut self, journal: JournalEntry) -> Result<(), Gone> {
        let seq = journal.seq;
        // An item changes the status as a whole: it is complete when the next item begins. The statuses of items that
        // were part of the run when the stream began are not sent.
        if journal.commit.is_some() && seq > self.seq {
            self.send_status(seq - 1).await?;
        }
        self.follower.apply(&journal);
        self.send(event(Some(seq), "entry", &Entry::from_journal(journal))).await?;
        if seq >= self.seq && self.follower.is_level() {
            self.send_status(seq).await?;
        }
        Ok(())
    }

    /// Sends the status, if it differs from the last one.
    async fn send_status(&mut self, seq: u64) -> Result<(), Gone> {
        let status = self.follower.status();
        if self.sent == Some(status) {
            return Ok(());
        }
        self.sent = Some(status);
        self.send(event(None, "status", &StatusEvent { status: status.as_str(), seq })).await
    }

    async fn end(&mut self) -> Result<(), Gone> {
        let status = Some(self.follower.status()).filter(|status| status.has_ended());
        self.send(event(None, "end", &EndEvent { status: status.map(Status::as_str) })).await
    }

    async fn send(&self, text: String) -> Result<(), Gone> {
        let sent = timeout(WRITE_TIMEOUT, self.sender.send(Bytes::from(text))).await;
        sent.map_err(|_| Gone)?.map_err(|_| Gone)
    }
}

/// One event in its wire format.
fn event(id: Option<u64>, name: &str, data: &impl Serialize) -> String {
    let data = serde_json::to_string(data).expect("an event can be written as JSON");
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    // JSON has line breaks only between its parts, where a space is equivalent.
    format!("{id}event: {name}\ndata: {}\n\n", data.replace(['\n', '\r'], " "))
}

#[cfg(test)]
mod tests {
    use everstep_core::payload::Payload;

    use super::*;

    #[test]
    fn an_event_is_one_line_of_data() {
        let data = Payload::from_json("{\"a\":\r\n 1}").unwrap_or_default();
        assert_eq!(event(Some(5), "entry", &data), "id: 5\nevent: entry\ndata: {\"a\":   1}\n\n");
        assert_eq!(event(None, "end", &1), "event: end\ndata: 1\n\n");
    }
}
