//! A target of webhooks on this machine, which can hang, answer late, refuse and cut off.
//!
//! It uses threads, so that tests with and without a runtime can use it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The response of a target to a request; a mail server answers mails with 250 instead of 204.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetMode {
    /// It answers 204.
    #[default]
    Accept,
    /// It answers with this status.
    Refuse(u16),
    /// It reads the request and does not answer before its mode is changed; then it closes the connection.
    Hang,
    /// It answers 204 after this time.
    Late(Duration),
    /// It reads the request and closes the connection.
    CutOff,
    /// It answers with this status, and closes the connection before the body.
    HeadOnly(u16),
}

/// A request that a target has received.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedWebhook {
    pub path: String,
    /// By their names in lowercase.
    pub headers: BTreeMap<String, String>,
    /// The bytes that were signed.
    pub body: Vec<u8>,
    pub at: Instant,
    /// Whether it was answered with 204.
    pub is_accepted: bool,
}

impl ReceivedWebhook {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The id that is the same for all attempts.
    pub fn id(&self) -> &str {
        self.header("webhook-id")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A target of webhooks. It stops when it is dropped.
pub struct WebhookTarget {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<TargetState>,
    /// The mode has changed.
    changed: Condvar,
}

#[derive(Default)]
struct TargetState {
    mode: TargetMode,
    /// Counts the changes of the mode.
    changes: u64,
    is_stopped: bool,
    received: Vec<ReceivedWebhook>,
}

impl WebhookTarget {
    /// Starts a target that accepts every request.
    pub fn start() -> Self {
        Self::start_on("127.0.0.1")
    }

    /// Starts a target on another address of this machine: another host for the bounds of webhooks.
    pub fn start_on(address: &str) -> Self {
        let listener = TcpListener::bind((address, 0)).expect("a port is free");
        let address = listener.local_addr().expect("the listener has an address");
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        thread::spawn(move || serve(&listener, &serving));
        Self { address, shared }
    }

    /// The address of the target, with a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn set_mode(&self, mode: TargetMode) {
        let mut state = self.shared.lock();
        state.mode = mode;
        state.changes += 1;
        self.shared.changed.notify_all();
    }

    /// The requests so far, in the order in which they arrived.
    pub fn received(&self) -> Vec<ReceivedWebhook> {
        self.shared.lock().received.clone()
    }

    /// The number of requests so far.
    pub fn count(&self) -> usize {
        self.shared.lock().received.len()
    }
}

impl Drop for WebhookTarget {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_stopped = true;
        state.changes += 1;
        drop(state);
        self.shared.changed.notify_all();
        // Wakes the thread that accepts connections.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, TargetState> {
        self.state.lock().expect("no holder of the lock panics")
    }
}

fn serve(listener: &TcpListener, shared: &Arc<Shared>) {
    for connection in listener.incoming() {
        if shared.lock().is_stopped {
            return;
        }
        let Ok(connection) = connection else { continue };
        let shared = Arc::clone(shared);
        thread::spawn(move || answer(&connection, &shared));
    }
}

/// Answers one request and closes the connection. A client that disconnects early is not an error here.
fn answer(connection: &TcpStream, shared: &Shared) {
    let Some(request) = read(connection) else { return };
    let (number, mode) = {
        let mut state = shared.lock();
        state.received.push(request);
        (state.received.len() - 1, state.mode)
    };
    let status = match mode {
        TargetMode::Accept => 204,
        TargetMode::Refuse(status) | TargetMode::HeadOnly(status) => status,
        TargetMode::Late(delay) => {
            thread::sleep(delay);
            204
        }
        TargetMode::CutOff => return,
        TargetMode::Hang => {
            let state = shared.lock();
            let changes = state.changes;
            drop(shared.changed.wait_while(state, |state| state.changes == changes));
            return;
        }
    };
    if status == 204 {
        shared.lock().received[number].is_accepted = true;
    }
    let length = if matches!(mode, TargetMode::HeadOnly(_)) { 100 } else { 0 };
    let head = format!("HTTP/1.1 {status} Status\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    let mut connection = connection;
    let _ = connection.write_all(head.as_bytes());
}

fn read(connection: &TcpStream) -> Option<ReceivedWebhook> {
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split_whitespace().nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(ReceivedWebhook { path, headers, body, at: Instant::now(), is_accepted: false })
}
