//! `/v1/runs/{id}/events`: a run as server-sent events.
//!
//! 1. The id of a snapshot and of an entry is its seq. A client that reconnects with the last id misses nothing.
//! 2. After the end of a run the stream is closed. A client that reconnects after that receives 204, which makes a
//!    browser stop reconnecting.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at, timeout};

use super::feed::{JoinedRun, RunFeed, RunMessage};
use super::pass::{self, KEY_CHECK_INTERVAL};
use crate::auth::{Caller, TICKET};
use crate::http::headers;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::resources::runs;
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
    runs::VIEW,
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
    let (after, form) = (after(&query, &headers)?, runs::read_view(&query)?);
    let slot = app.hub.slots.take_slot(&caller)?;
    let joined = JoinedRun::load(&app, caller.workspace, id).await?;
    if let Some(after) = after {
        joined.check(after)?;
        if after == joined.seq && joined.status().has_ended() {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
    let feed = joined.feed(&app, caller.workspace, after, form).await?;
    let (sender, mut receiver) = mpsc::channel(QUEUED_MESSAGES_MAX);
    tokio::spawn(async move {
        let _slot = slot;
        Stream { feed, sender }.run(&app, &caller).await;
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
        return Ok(query.number("after"));
    };
    let number = text.parse::<i64>().ok().and_then(|number| u64::try_from(number).ok());
    let detail = || Problem::invalid(format!("the header Last-Event-ID is not valid: {text:?}"));
    number.map(Some).ok_or_else(|| detail().hint("send the id of the last received event"))
}

struct Stream {
    feed: RunFeed,
    sender: mpsc::Sender<Bytes>,
}

/// The client has disconnected.
struct Gone;

impl Stream {
    /// Sends everything, until the run ends, the client disconnects, or it loses its permission.
    async fn run(mut self, app: &AppState, caller: &Caller) {
        let (now, hub) = (Instant::now(), &app.hub);
        // A comment prevents proxies from closing an idle connection.
        let mut heartbeat = interval_at(now + hub.heartbeat, hub.heartbeat);
        let mut look = interval_at(now + KEY_CHECK_INTERVAL, KEY_CHECK_INTERVAL);
        let sender = self.sender.clone();
        let sending = async {
            self.send(format!("retry: {RECONNECT_AFTER_MS}\n\n")).await?;
            loop {
                let message = tokio::select! {
                    message = self.feed.next() => message,
                    _ = heartbeat.tick() => {
                        self.send(":\n\n".to_owned()).await?;
                        continue;
                    }
                };
                match message {
                    Some(message) => self.send(render(&message)).await?,
                    None => return Ok::<(), Gone>(()),
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

    async fn send(&self, text: String) -> Result<(), Gone> {
        let sent = timeout(WRITE_TIMEOUT, self.sender.send(Bytes::from(text))).await;
        sent.map_err(|_| Gone)?.map_err(|_| Gone)
    }
}

fn render(message: &RunMessage) -> String {
    match message {
        RunMessage::Snapshot { seq, data } => event(Some(*seq), "snapshot", data),
        RunMessage::Entry { seq, data } => event(Some(*seq), "entry", data),
        RunMessage::Status(data) => event(None, "status", data),
        RunMessage::End(data) => event(None, "end", data),
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
