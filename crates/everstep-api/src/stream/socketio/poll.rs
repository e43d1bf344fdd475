//! The transport polling, which the stock client tries first: what is said waits until the client asks for it.
//!
//! A poll finds its connection in the memory of the node that opened it. So it is served only where there can be no
//! other node.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::packet;
use super::session::{self, QUEUED_MESSAGES_MAX, WRITE_TIMEOUT};
use crate::auth::Caller;
use crate::http::problem::Problem;
use crate::server::AppState;
use crate::stream::slots::Slot;

/// Packets of a client that wait for the connection.
const QUEUED_PACKETS_MAX: usize = 16;
/// An answer to a poll ends once it holds this many bytes.
const RESPONSE_BYTES_TARGET: usize = 1024 * 1024;
/// How long the last packets of a connection are kept.
const LINGER_DURATION: Duration = Duration::from_secs(5);
/// Separates the packets of one answer or request.
const PACKET_SEPARATOR: char = '\x1e';

/// The connections of this node that are polled.
#[derive(Default)]
pub(crate) struct Polls(Mutex<HashMap<String, Arc<Poll>>>);

struct Poll {
    incoming: mpsc::Sender<String>,
    /// Held while the client asks.
    outgoing: tokio::sync::Mutex<mpsc::Receiver<String>>,
    asked_at: Mutex<Instant>,
}

impl Polls {
    fn find(&self, sid: &str) -> Result<Arc<Poll>, Problem> {
        let unknown = || Problem::invalid("there is no such connection, or it has ended").hint("connect anew");
        self.all().get(sid).cloned().ok_or_else(unknown)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Poll>>> {
        self.0.lock().expect("no holder of the lock panics")
    }
}

/// Opens a connection. The answer is its first packet.
pub(super) async fn open(
    app: AppState,
    shown: Result<Option<Caller>, Problem>,
    slot: Slot,
) -> Result<Response, Problem> {
    let sid = session::new_sid();
    let (incoming, mut heard) = mpsc::channel(QUEUED_PACKETS_MAX);
    let (out, outgoing) = mpsc::channel(QUEUED_MESSAGES_MAX);
    let outgoing = tokio::sync::Mutex::new(outgoing);
    let poll = Arc::new(Poll { incoming, outgoing, asked_at: Mutex::new(Instant::now()) });
    app.hub.polls.all().insert(sid.clone(), Arc::clone(&poll));
    let (hub, name) = (Arc::clone(&app.hub), sid.clone());
    let packets = stream::poll_fn(move |cx| heard.poll_recv(cx));
    let serving = session::serve(app, name.clone(), packets, out, shown, slot);
    let asked = Arc::clone(&poll);
    tokio::spawn(async move {
        tokio::select! {
            () = serving => sleep(LINGER_DURATION).await,
            () = asked.wait_until_forgotten() => {}
        }
        hub.polls.all().remove(&name);
    });
    poll.next_response().await
}

/// Answers a poll as soon as there is something to say.
pub(super) async fn get(app: &AppState, sid: &str) -> Result<Response, Problem> {
    app.hub.polls.find(sid)?.next_response().await
}

/// Hears what a client sends.
pub(super) async fn post(app: &AppState, sid: &str, body: &Bytes) -> Result<Response, Problem> {
    let poll = app.hub.polls.find(sid)?;
    let text = str::from_utf8(body).map_err(|_| Problem::invalid("packets are UTF-8"))?;
    for packet in text.split(PACKET_SEPARATOR) {
        let sent = poll.incoming.send(packet.to_owned()).await;
        sent.map_err(|_| Problem::invalid("the connection has ended").hint("connect anew"))?;
    }
    Ok(plain("ok".to_owned()))
}

impl Poll {
    /// The packets that wait to be sent, as one response. Waits for the first of them.
    async fn next_response(&self) -> Result<Response, Problem> {
        let Ok(mut outgoing) = self.outgoing.try_lock() else {
            return Err(Problem::invalid("this connection is polled twice at once"));
        };
        // A ping comes now and then, so that this never takes long.
        let Some(mut text) = outgoing.recv().await else { return Ok(plain(packet::CLOSE.to_owned())) };
        while text.len() < RESPONSE_BYTES_TARGET
            && let Ok(next) = outgoing.try_recv()
        {
            text.push(PACKET_SEPARATOR);
            text.push_str(&next);
        }
        *self.asked_at.lock().expect("no holder of the lock panics") = Instant::now();
        Ok(plain(text))
    }

    /// Waits until the client has not asked for long.
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
