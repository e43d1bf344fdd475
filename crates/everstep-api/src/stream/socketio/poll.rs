//! The transport polling, which the stock client tries first: packets wait until the client requests them.
//!
//! A poll finds its connection in the memory of the node that opened it. So it is supported only if no other node can
//! exist.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use super::packet::{self, Packet};
use super::session::{self, QUEUED_MESSAGES_MAX, SessionEnd, WRITE_TIMEOUT};
use crate::auth::Caller;
use crate::http::problem::Problem;
use crate::server::AppState;
use crate::stream::slots::Slot;

/// Packets of a client that wait for the connection.
const QUEUED_PACKETS_MAX: usize = 16;
/// A response to a poll ends when it has this many bytes.
const RESPONSE_BYTES_TARGET: usize = 1024 * 1024;
/// The time for which the last packets of a connection are kept.
const LINGER_DURATION: Duration = Duration::from_secs(5);
/// Separates the packets of one response or request.
const PACKET_SEPARATOR: char = '\x1e';

/// The connections of this node that are polled.
#[derive(Default)]
pub(crate) struct Polls(Mutex<HashMap<String, Arc<Poll>>>);

struct Poll {
    incoming: mpsc::Sender<String>,
    /// Held while a poll is in progress.
    outgoing: tokio::sync::Mutex<mpsc::Receiver<String>>,
    asked_at: Mutex<Instant>,
    /// Whether the client has violated the protocol, which ends the connection.
    is_broken: watch::Sender<bool>,
}

impl Polls {
    fn find(&self, sid: &str) -> Result<Arc<Poll>, Problem> {
        let unknown = || Problem::invalid("this connection does not exist, or has ended").hint("connect again");
        self.all().get(sid).cloned().ok_or_else(unknown)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Poll>>> {
        self.0.lock().expect("no holder of the lock panics")
    }
}

/// Opens a connection. The response is its first packet.
pub(super) async fn open(
    app: AppState,
    shown: Result<Option<Caller>, Problem>,
    slot: Slot,
) -> Result<Response, Problem> {
    let sid = session::new_sid();
    let (incoming, mut heard) = mpsc::channel(QUEUED_PACKETS_MAX);
    let (out, outgoing) = mpsc::channel(QUEUED_MESSAGES_MAX);
    let outgoing = tokio::sync::Mutex::new(outgoing);
    let is_broken = watch::Sender::new(false);
    let poll = Arc::new(Poll { incoming, outgoing, asked_at: Mutex::new(Instant::now()), is_broken });
    app.hub.polls.all().insert(sid.clone(), Arc::clone(&poll));
    let (hub, name) = (Arc::clone(&app.hub), sid.clone());
    let packets = stream::poll_fn(move |cx| heard.poll_recv(cx));
    let serving = session::serve(app, name.clone(), packets, out, shown, slot);
    let asked = Arc::clone(&poll);
    tokio::spawn(async move {
        let end = tokio::select! {
            end = serving => end,
            () = asked.wait_until_forgotten() => SessionEnd::TimedOut,
            () = asked.wait_until_broken() => SessionEnd::TimedOut,
        };
        // The client fetches the last packets, unless it has disconnected or violated the protocol.
        if end == SessionEnd::Closed {
            tokio::select! {
                () = sleep(LINGER_DURATION) => {}
                () = asked.wait_until_broken() => {}
            }
        }
        hub.polls.all().remove(&name);
    });
    Ok(poll.next_response().await.expect("no other request knows the connection yet"))
}

/// Answers a poll as soon as packets are queued. A client has one poll at a time: a second one closes the connection.
pub(super) async fn get(app: &AppState, sid: &str) -> Result<Response, Problem> {
    let poll = app.hub.polls.find(sid)?;
    if let Some(response) = poll.next_response().await {
        return Ok(response);
    }
    close(app, sid);
    let hint = "connect again, and send a GET only after the response to the previous one";
    Err(Problem::invalid("the connection was polled twice at the same time, and is closed").hint(hint))
}

/// Closes a connection whose client has violated the protocol. Later requests do not find it.
pub(super) fn close(app: &AppState, sid: &str) {
    if let Some(poll) = app.hub.polls.all().remove(sid) {
        poll.is_broken.send_replace(true);
    }
}

/// Accepts the packets of a client. A packet that cannot be read closes the connection.
pub(super) async fn post(app: &AppState, sid: &str, body: &Bytes) -> Result<Response, Problem> {
    let poll = app.hub.polls.find(sid)?;
    let packets = str::from_utf8(body).ok().map(|text| text.split(PACKET_SEPARATOR));
    let packets: Option<Vec<_>> =
        packets.and_then(|packets| packets.map(|packet| Packet::read(packet).map(|_| packet)).collect());
    let Some(packets) = packets else {
        close(app, sid);
        let hint = "connect again, and send packets of Socket.IO 5";
        return Err(Problem::invalid("a packet cannot be read; the connection is closed").hint(hint));
    };
    for packet in packets {
        let sent = poll.incoming.send(packet.to_owned()).await;
        sent.map_err(|_| Problem::invalid("the connection has ended").hint("connect again"))?;
    }
    Ok(plain("ok".to_owned()))
}

impl Poll {
    /// The queued packets, as one response; none while another poll waits for them. Waits for the first packet, or for
    /// the end of the connection.
    async fn next_response(&self) -> Option<Response> {
        let mut outgoing = self.outgoing.try_lock().ok()?;
        // A ping is sent periodically, so this never takes long.
        let text = tokio::select! {
            text = outgoing.recv() => text,
            () = self.wait_until_broken() => None,
        };
        let Some(mut text) = text else { return Some(plain(packet::CLOSE.to_owned())) };
        while text.len() < RESPONSE_BYTES_TARGET
            && let Ok(next) = outgoing.try_recv()
        {
            text.push(PACKET_SEPARATOR);
            text.push_str(&next);
        }
        *self.asked_at.lock().expect("no holder of the lock panics") = Instant::now();
        Some(plain(text))
    }

    /// Waits until the client has violated the protocol.
    async fn wait_until_broken(&self) {
        let mut is_broken = self.is_broken.subscribe();
        // The sender lives as long as this value.
        let _ = is_broken.wait_for(|is_broken| *is_broken).await;
    }

    /// Waits until the client has not polled for a long time.
    async fn wait_until_forgotten(&self) {
        loop {
            sleep(LINGER_DURATION).await;
            let is_asking = self.outgoing.try_lock().is_err();
            let mut asked_at = self.asked_at.lock().expect("no holder of the lock panics");
            if is_asking {
                *asked_at = Instant::now();
            } else if asked_at.elapsed() > WRITE_TIMEOUT {
                return;
            }
        }
    }
}

fn plain(text: String) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=UTF-8"), (header::CACHE_CONTROL, "no-store")];
    (headers, text).into_response()
}
