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
    /// Held while a poll is in progress, and only by polls: a client whose poll finds it held has polled twice.
    outgoing: tokio::sync::Mutex<mpsc::Receiver<String>>,
    last_poll: Mutex<LastPoll>,
    /// Whether the client has violated the protocol, which ends the connection.
    is_broken: watch::Sender<bool>,
}

#[derive(Clone, Copy)]
enum LastPoll {
    InProgress,
    EndedAt(Instant),
}

/// A poll in progress. It has ended when this value is dropped, also if the client has disconnected.
struct PollInProgress<'a>(&'a Mutex<LastPoll>);

impl<'a> PollInProgress<'a> {
    fn begin(last_poll: &'a Mutex<LastPoll>) -> Self {
        *last_poll.lock().expect("no holder of the lock panics") = LastPoll::InProgress;
        Self(last_poll)
    }
}

impl Drop for PollInProgress<'_> {
    fn drop(&mut self) {
        *self.0.lock().expect("no holder of the lock panics") = LastPoll::EndedAt(Instant::now());
    }
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
    let poll = Arc::new(Poll::new(incoming, outgoing));
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
    fn new(incoming: mpsc::Sender<String>, outgoing: mpsc::Receiver<String>) -> Self {
        let outgoing = tokio::sync::Mutex::new(outgoing);
        let last_poll = Mutex::new(LastPoll::EndedAt(Instant::now()));
        Self { incoming, outgoing, last_poll, is_broken: watch::Sender::new(false) }
    }

    /// The queued packets, as one response; none while another poll waits for them. Waits for the first packet, or for
    /// the end of the connection.
    async fn next_response(&self) -> Option<Response> {
        let mut outgoing = self.outgoing.try_lock().ok()?;
        let _in_progress = PollInProgress::begin(&self.last_poll);
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
        while !self.is_forgotten_at(Instant::now()) {
            sleep(LINGER_DURATION).await;
        }
    }

    fn is_forgotten_at(&self, now: Instant) -> bool {
        match *self.last_poll.lock().expect("no holder of the lock panics") {
            LastPoll::InProgress => false,
            LastPoll::EndedAt(time) => now.duration_since(time) > WRITE_TIMEOUT,
        }
    }
}

fn plain(text: String) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=UTF-8"), (header::CACHE_CONTROL, "no-store")];
    (headers, text).into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures_util::FutureExt;

    use super::*;

    /// A connection without a client, and the sender of its packets.
    fn connection() -> (Poll, mpsc::Sender<String>) {
        let ((incoming, _), (out, outgoing)) = (mpsc::channel(1), mpsc::channel(1));
        (Poll::new(incoming, outgoing), out)
    }

    #[tokio::test]
    async fn a_poll_during_the_check_for_its_client_is_not_a_second_one() {
        let (poll, out) = connection();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert!(!poll.is_forgotten_at(Instant::now()));
                }
            });
            let polls = async {
                for _ in 0..10_000 {
                    out.send("2".to_owned()).await?;
                    if poll.next_response().await.is_none() {
                        return Ok(false);
                    }
                }
                Ok::<_, mpsc::error::SendError<String>>(true)
            };
            // Otherwise the budget of a task ends the loop early.
            let polled = tokio::task::unconstrained(polls).now_or_never();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(polled, Some(Ok(true)), "a packet is queued before each poll, and there is only one");
        });
    }

    #[tokio::test]
    async fn a_connection_is_forgotten_some_time_after_its_last_poll() {
        let (poll, _out) = connection();
        let mut waiting = std::pin::pin!(poll.next_response());
        assert!(waiting.as_mut().now_or_never().is_none());
        let later = Instant::now() + 2 * WRITE_TIMEOUT;
        assert!(!poll.is_forgotten_at(later), "a poll is in progress");
        poll.is_broken.send_replace(true);
        waiting.await.unwrap();
        assert!(!poll.is_forgotten_at(Instant::now()));
        assert!(poll.is_forgotten_at(later));
    }
}
