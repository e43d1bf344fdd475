//! One connection: its caller, and the runs that it has joined.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use everstep_core::decode::describe_error;
use everstep_core::ids::RunId;
use futures_util::stream::SplitSink;
use futures_util::{SinkExt, Stream, StreamExt, future};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval_at, timeout};
use uuid::Uuid;

use super::packet::{self, Packet};
use super::room::Room;
use super::{REQUEST_BYTES_MAX, events};
use crate::auth::{self, Caller, Permission};
use crate::http::problem::Problem;
use crate::resources::runs;
use crate::server::AppState;
use crate::stream::feed::JoinedRun;
use crate::stream::pass::{self, KEY_CHECK_INTERVAL};
use crate::stream::slots::Slot;

/// The time within which a client must authenticate.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(10);
/// A client that reads nothing for this long is disconnected.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// The time limit for the last message.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Messages that wait for the connection, about all of its runs.
pub(super) const QUEUED_MESSAGES_MAX: usize = 4;

/// Serves a WebSocket until one side ends it.
pub(super) async fn run(app: AppState, socket: WebSocket, shown: Result<Option<Caller>, Problem>, slot: Slot) {
    let (sink, stream) = socket.split();
    let (out, outgoing) = mpsc::channel(QUEUED_MESSAGES_MAX);
    let mut writer = tokio::spawn(write(sink, outgoing));
    let is_ours = |message: &Result<Message, _>| {
        future::ready(matches!(message, Ok(Message::Text(_) | Message::Ping(_) | Message::Pong(_))))
    };
    let packets = stream.take_while(is_ours).filter_map(|message| {
        future::ready(match message {
            Ok(Message::Text(text)) => Some(text.as_str().to_owned()),
            _ => None,
        })
    });
    serve(app, new_sid(), packets, out, shown, slot).await;
    // The last messages are written, unless the client does not read them.
    if timeout(CLOSE_TIMEOUT, &mut writer).await.is_err() {
        writer.abort();
    }
}

/// Serves one connection, with either transport, until its packets end or this node stops.
pub(super) async fn serve(
    app: AppState,
    sid: String,
    packets: impl Stream<Item = String>,
    out: mpsc::Sender<String>,
    shown: Result<Option<Caller>, Problem>,
    slot: Slot,
) -> SessionEnd {
    let hub = Arc::clone(&app.hub);
    let session = Session { app, sid, out, shown, member: None, rooms: HashMap::new(), slot };
    tokio::select! {
        end = session.run(packets) => end,
        () = hub.stopped() => SessionEnd::Closed,
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// One side has closed it. The last packets may still wait for the client.
    Closed,
    /// The client did not answer a ping, or did not authenticate in time.
    TimedOut,
}

/// Writes the queued messages, as fast as the client reads.
async fn write(mut sink: SplitSink<WebSocket, Message>, mut outgoing: mpsc::Receiver<String>) {
    while let Some(text) = outgoing.recv().await {
        if !matches!(timeout(WRITE_TIMEOUT, sink.send(Message::from(text))).await, Ok(Ok(()))) {
            return;
        }
    }
    let _ = sink.close().await;
}

struct Session {
    app: AppState,
    sid: String,
    out: mpsc::Sender<String>,
    /// The credentials in the headers.
    shown: Result<Option<Caller>, Problem>,
    member: Option<Caller>,
    rooms: HashMap<RunId, JoinHandle<()>>,
    slot: Slot,
}

/// A request to join.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Join {
    run_id: String,
    /// Entries up to this seq are already known.
    #[serde(default)]
    after: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Leave {
    run_id: String,
}

/// The credentials of a client. Clients may send other fields, which are ignored.
#[derive(Deserialize)]
struct Credentials {
    key: Option<String>,
    ticket: Option<String>,
    #[serde(flatten)]
    unknown: BTreeMap<String, IgnoredAny>,
}

impl Session {
    async fn run(mut self, packets: impl Stream<Item = String>) -> SessionEnd {
        let mut packets = pin!(packets);
        let now = Instant::now();
        let (interval, pong_timeout) = (self.app.hub.ping_interval, self.app.hub.pong_timeout);
        let mut ping = interval_at(now + interval, interval);
        let mut look = interval_at(now + KEY_CHECK_INTERVAL, KEY_CHECK_INTERVAL);
        let mut heard_at = now;
        let first = packet::open(&self.sid, interval.as_millis(), pong_timeout.as_millis(), REQUEST_BYTES_MAX);
        if let Err(end) = self.say(first).await {
            return end;
        }
        let out = self.out.clone();
        loop {
            let going = tokio::select! {
                packet = packets.next() => {
                    heard_at = Instant::now();
                    match packet {
                        Some(packet) => self.hear(&packet).await,
                        None => Err(SessionEnd::Closed),
                    }
                }
                _ = ping.tick() => {
                    ask_whether_there(&self.out);
                    Ok(())
                }
                _ = look.tick() => self.look(now, heard_at).await,
                () = out.closed() => Err(SessionEnd::Closed),
            };
            if let Err(end) = going {
                return end;
            }
        }
    }

    /// Checks that the client is alive, and still has the permission.
    async fn look(&mut self, began: Instant, heard_at: Instant) -> Result<(), SessionEnd> {
        match &self.member {
            Some(caller) if !pass::holds(&self.app, caller).await => {
                // The client is notified not to reconnect.
                self.say(packet::DISCONNECT.to_owned()).await?;
                return Err(SessionEnd::Closed);
            }
            None if began.elapsed() > AUTHENTICATION_TIMEOUT => return Err(SessionEnd::TimedOut),
            Some(_) | None => {}
        }
        // A client that reads slowly may delay the ping: then the writer times out.
        let patience = self.app.hub.ping_interval + self.app.hub.pong_timeout;
        if heard_at.elapsed() > patience && self.out.capacity() == QUEUED_MESSAGES_MAX {
            Err(SessionEnd::TimedOut)
        } else {
            Ok(())
        }
    }

    async fn hear(&mut self, text: &str) -> Result<(), SessionEnd> {
        match Packet::read(text) {
            Some(Packet::Pong) => Ok(()),
            Some(Packet::Connect { auth }) if self.member.is_none() => self.introduce(auth).await,
            Some(Packet::Event { id, name, arguments }) if self.member.is_some() => {
                self.ask(id, &name, arguments).await
            }
            Some(Packet::Elsewhere { namespace }) => {
                let problem = Problem::not_found(format!("the namespace {namespace:?} does not exist"));
                self.say(packet::refused(&namespace, "Invalid namespace", &json!(problem.document()))).await
            }
            Some(Packet::Close | Packet::Disconnect | Packet::Connect { .. } | Packet::Event { .. }) | None => {
                Err(SessionEnd::Closed)
            }
        }
    }

    /// Authenticates the client, or sends the reason of the rejection.
    async fn introduce(&mut self, auth: Value) -> Result<(), SessionEnd> {
        match self.admit(auth).await {
            Ok(caller) => {
                self.member = Some(caller);
                self.say(packet::connected(&self.sid)).await
            }
            Err(problem) => {
                let document = json!(problem.document());
                let message = document["detail"].as_str().unwrap_or_default();
                self.say(packet::refused("/", message, &document)).await?;
                Err(SessionEnd::Closed)
            }
        }
    }

    async fn admit(&mut self, auth: Value) -> Result<Caller, Problem> {
        let shown = std::mem::replace(&mut self.shown, Ok(None))?;
        let auth = if auth.is_null() { json!({}) } else { auth };
        let Credentials { key, ticket, unknown } = read_object(auth).map_err(|error| {
            auth::reject(&format!("auth must be {{key: \"es_…\"}} or {{ticket: \"est_…\"}}: {error}"))
        })?;
        if !unknown.is_empty() {
            tracing::info!(fields = %list_names(unknown.keys()), "a Socket.IO client sent unknown fields in auth; they are ignored");
        }
        let caller = match (shown, key, ticket) {
            (Some(caller), None, None) => caller,
            (None, Some(key), None) => auth::authenticate_api_key(&self.app, &key).await?,
            (None, None, Some(ticket)) => auth::authenticate_ticket(&self.app, &ticket).await?,
            (None, None, None) => {
                return Err(auth::reject("this connection needs an API key: io(url, { auth: { key: \"es_…\" } })"));
            }
            _ => return Err(auth::reject("send one API key, or one ticket, in one place")),
        };
        self.slot.name(&caller)?;
        Ok(caller)
    }

    /// Handles a request.
    async fn ask(&mut self, id: Option<u64>, name: &str, arguments: Vec<Value>) -> Result<(), SessionEnd> {
        let caller = self.member.as_ref().expect("requests are accepted only from authenticated clients");
        let answer = match (auth::count_request(&self.app, caller), name) {
            (Err(problem), _) => Err(problem),
            (Ok(()), events::JOIN) => self.join(id, arguments).await,
            (Ok(()), events::LEAVE) => self.leave(arguments).await.map(Some),
            (Ok(()), _) => {
                let hint = format!("the events are {} and {}", events::JOIN, events::LEAVE);
                Err(Problem::invalid(format!("the event {name:?} does not exist")).hint(hint))
            }
        };
        match (answer, id) {
            (Ok(Some(answer)), Some(id)) => self.say(packet::answer(id, &answer)).await,
            (Ok(_), _) => Ok(()),
            (Err(problem), Some(id)) => self.say(packet::answer(id, &json!({"error": problem.document()}))).await,
            (Err(problem), None) => {
                let error = json!({"event": name, "error": problem.document()});
                self.say(packet::event(events::ERROR, &error)).await
            }
        }
    }

    /// Joins a run. The response is sent before all messages about the run.
    async fn join(&mut self, id: Option<u64>, arguments: Vec<Value>) -> Result<Option<Value>, Problem> {
        let Join { run_id, after } = read(arguments)?;
        let caller = self.member.clone().expect("requests are accepted only from authenticated clients");
        if !caller.may(Permission::View) {
            return Err(auth::lacks_permission(&caller, Permission::View));
        }
        let run = runs::read_id(&run_id)?;
        self.rooms.retain(|_, room| !room.is_finished());
        if self.rooms.contains_key(&run) {
            return Ok(Some(json!({"ok": true, "repeated": true})));
        }
        let slot = self.app.hub.slots.take_slot(&caller)?;
        let joined = JoinedRun::load(&self.app, caller.workspace, run).await?;
        joined.check(after)?;
        let (status, seq) = (joined.status().as_str().to_uppercase(), joined.seq);
        let answer = json!({"ok": true, "status": status, "seq": seq});
        if let Some(id) = id
            && self.say(packet::answer(id, &answer)).await.is_err()
        {
            // The loop of the connection detects it.
            return Ok(None);
        }
        let (_, follower) = joined.follow(&self.app, caller.workspace, after);
        let room = Room::new(run, seq, follower, self.out.clone());
        let following = tokio::spawn(async move {
            let _slot = slot;
            room.run().await;
        });
        self.rooms.insert(run, following);
        Ok(None)
    }

    /// Leaves a run. No message about it follows the response.
    async fn leave(&mut self, arguments: Vec<Value>) -> Result<Value, Problem> {
        let Leave { run_id } = read(arguments)?;
        let run = runs::read_id(&run_id)?;
        if let Some(room) = self.rooms.remove(&run) {
            room.abort();
            // It has ended before, or just now.
            let _ = room.await;
        }
        Ok(json!({"ok": true}))
    }

    async fn say(&self, text: String) -> Result<(), SessionEnd> {
        let said = timeout(WRITE_TIMEOUT, self.out.send(text)).await;
        said.map_err(|_| SessionEnd::TimedOut)?.map_err(|_| SessionEnd::Closed)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for room in self.rooms.values() {
            room.abort();
        }
    }
}

/// Sends a ping, after the queued messages. For a stock client only pings prove that the connection is alive: it
/// disconnects if a ping is omitted while other messages arrive.
fn ask_whether_there(out: &mpsc::Sender<String>) {
    if let Err(TrySendError::Full(ping)) = out.try_send(packet::PING.to_owned()) {
        let out = out.clone();
        // No other task waits for it. The writer times out if a client does not read.
        tokio::spawn(async move { out.send(ping).await });
    }
}

/// Names of fields for the log: at most ten, each at most 50 characters.
fn list_names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let short = |name: &String| name.chars().take(50).collect::<String>().escape_debug().to_string();
    names.take(10).map(short).collect::<Vec<_>>().join(", ")
}

/// Reads the one argument of a request.
fn read<T: serde::de::DeserializeOwned>(arguments: Vec<Value>) -> Result<T, Problem> {
    let [argument] = <[Value; 1]>::try_from(arguments)
        .map_err(|arguments| Problem::invalid(format!("{} arguments are given; one is expected", arguments.len())))?;
    let hint = "send {runId: \"…\"}";
    read_object(argument).map_err(|error| Problem::invalid(format!("the argument is not valid: {error}")).hint(hint))
}

/// Reads an object: a list of its values in order is rejected.
fn read_object<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, String> {
    if !value.is_object() {
        return Err("it is not an object".to_owned());
    }
    serde_json::from_value(value).map_err(|error| describe_error(&error))
}

/// A random, opaque id of the connection.
pub(super) fn new_sid() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
    Uuid::from_bytes(bytes).simple().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_busy_connection_is_pinged_too() {
        let (out, mut outgoing) = mpsc::channel(1);
        out.send("busy".to_owned()).await.unwrap_or_default();
        ask_whether_there(&out);
        drop(out);
        assert_eq!(outgoing.recv().await.as_deref(), Some("busy"));
        assert_eq!(outgoing.recv().await.as_deref(), Some(packet::PING));
        assert_eq!(outgoing.recv().await, None);
    }

    #[test]
    fn the_log_names_unknown_fields_and_is_not_flooded() {
        let names: Vec<_> = (0..20).map(|number| format!("{number}\n{}", "x".repeat(100))).collect();
        let listed = list_names(names.iter());
        assert!(listed.starts_with("0\\nxx") && listed.len() < 600, "{listed}");
        assert_eq!(list_names(["token".to_owned()].iter()), "token");
    }
}
