//! Sends requests to other nodes.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Bytes;
use axum::http::{Method, Request, StatusCode, header};
use everstep_core::ids::{NodeId, WorkspaceId};
use everstep_core::run::Reply;
use everstep_engine::{Engine, Error, Hint, Peer, Peers, Question, RunInput};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::cluster::outbox::Outbox;
use crate::cluster::signature::{SignedHeader, SignedRequest};
use crate::cluster::{ClusterKey, HINTS_PATH, INPUTS_PATH};

/// After this time without a connection a peer counts as unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// After this time without a response the outcome is unknown.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of sending hints.
const HINT_TIMEOUT: Duration = Duration::from_secs(2);
/// Idle connections are closed after this time, before the peer closes them.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a response.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the response to a question: messages for a worker contain the outputs of runs.
const QUESTION_RESPONSE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Sends requests and hints to other nodes. Cheap to clone.
#[derive(Clone)]
pub struct Channel(Arc<Inner>);

struct Inner {
    key: ClusterKey,
    client: Client<HttpConnector, Full<Bytes>>,
    runtime: Handle,
    /// The sending node; known after the engine has joined.
    engine: OnceLock<Engine>,
    /// The queued hints for each node. A node is in this map as long as a request to it is in progress.
    outboxes: Mutex<HashMap<NodeId, Outbox>>,
    /// Notified when no hint is queued.
    quiet: Notify,
}

/// Why a request has no response.
enum SendError {
    /// It was not sent, or was rejected: nothing was done.
    NotTaken(String),
    /// It was sent, and the outcome is unknown.
    NoAnswer(String),
}

impl Channel {
    /// Must be called from within a runtime.
    pub fn new(key: ClusterKey) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        connector.set_keepalive(Some(IDLE_TIMEOUT));
        let client = Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE_TIMEOUT).build(connector);
        let (engine, outboxes, quiet) = (OnceLock::new(), Mutex::default(), Notify::new());
        Self(Arc::new(Inner { key, client, runtime: Handle::current(), engine, outboxes, quiet }))
    }

    /// Sets the sending node. Before this nothing is sent.
    pub fn introduce(&self, engine: &Engine) {
        // The first call counts.
        let _ = self.0.engine.set(engine.clone());
    }

    /// Waits until every hint is sent, or lost.
    pub async fn flush(&self) {
        loop {
            let mut quiet = pin!(self.0.quiet.notified());
            quiet.as_mut().enable();
            if self.outboxes().is_empty() {
                return;
            }
            quiet.await;
        }
    }

    /// Sends a signed request and returns the body of its response.
    async fn ask(
        &self,
        peer: &Peer,
        path: &'static str,
        caller: Option<WorkspaceId>,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<Bytes, SendError> {
        let (status, body) = self.exchange(peer, path, caller, body, timeout, RESPONSE_BYTES_MAX).await?;
        check_status(status, body)
    }

    /// Sends a signed request and returns the status and the body of its response.
    async fn exchange(
        &self,
        peer: &Peer,
        path: &'static str,
        caller: Option<WorkspaceId>,
        body: Vec<u8>,
        timeout: Duration,
        limit: usize,
    ) -> Result<(StatusCode, Bytes), SendError> {
        let engine =
            self.0.engine.get().ok_or_else(|| SendError::NotTaken("this node has not joined yet".to_owned()))?;
        let header = SignedHeader {
            sender: engine.node(),
            target: peer.id,
            caller,
            time: engine.world().clock.now(),
            nonce: Uuid::from_u128(fresh()),
        };
        let method = Method::POST;
        let headers = header.seal(&self.0.key, SignedRequest { method: method.as_str(), path, body: &body });
        let request = Request::builder().method(method).uri(format!("{}{path}", peer.address.trim_end_matches('/')));
        let request = request.header(header::CONTENT_TYPE, "application/json").body(Full::from(body));
        let mut request = request.map_err(|error| SendError::NotTaken(format!("its address is wrong: {error}")))?;
        if request.uri().scheme_str() != Some("http") {
            return Err(SendError::NotTaken("its address does not begin with http://".to_owned()));
        }
        request.headers_mut().extend(headers);
        let answered = async {
            let response = self.0.client.request(request).await.map_err(|error| {
                let why = describe(&error);
                if error.is_connect() { SendError::NotTaken(why) } else { SendError::NoAnswer(why) }
            })?;
            let status = response.status();
            let body = Limited::new(response.into_body(), limit).collect().await;
            Ok((status, body.map_err(|error| SendError::NoAnswer(error.to_string()))?.to_bytes()))
        };
        match tokio::time::timeout(timeout, answered).await {
            Ok(answered) => answered,
            Err(_) => Err(SendError::NoAnswer(format!("no response within {} s", timeout.as_secs()))),
        }
    }

    /// Sends the queued hints for a node until none is left.
    async fn say(self, peer: Peer) {
        loop {
            let hints = {
                let mut outboxes = self.outboxes();
                let hints = outboxes.get_mut(&peer.id).map(Outbox::take_hints).unwrap_or_default();
                if hints.is_empty() {
                    outboxes.remove(&peer.id);
                    if outboxes.is_empty() {
                        self.0.quiet.notify_waiters();
                    }
                    return;
                }
                hints
            };
            let body = serde_json::to_vec(&hints).expect("hints are plain data");
            if let Err(SendError::NotTaken(why) | SendError::NoAnswer(why)) =
                self.ask(&peer, HINTS_PATH, None, body, HINT_TIMEOUT).await
            {
                tracing::debug!(peer = %peer.id, why, "hints to another node were lost; its next tick finds the changes");
            }
        }
    }

    fn outboxes(&self) -> MutexGuard<'_, HashMap<NodeId, Outbox>> {
        self.0.outboxes.lock().expect("no holder of the lock panics")
    }
}

#[async_trait]
impl Peers for Channel {
    async fn send(&self, peer: &Peer, input: RunInput) -> Result<Reply, Error> {
        let body = serde_json::to_vec(&input).expect("an input is plain data");
        let answer = match self.ask(peer, INPUTS_PATH, Some(input.workspace), body, RESPONSE_TIMEOUT).await {
            Ok(answer) => answer,
            Err(SendError::NotTaken(why)) => {
                tracing::warn!(peer = %peer.id, address = peer.address, why, "a node did not accept an input");
                return Err(Error::Unreachable(peer.id));
            }
            Err(SendError::NoAnswer(why)) => {
                tracing::warn!(peer = %peer.id, address = peer.address, why, "a node has not replied");
                return Err(Error::OutcomeUnknown(peer.id));
            }
        };
        serde_json::from_slice::<Result<Reply, Error>>(&answer).unwrap_or_else(|error| {
            tracing::error!(peer = %peer.id, %error, "the response of a node cannot be read");
            Err(Error::OutcomeUnknown(peer.id))
        })
    }

    async fn ask(&self, peer: &Peer, question: Question) -> Result<(u16, Vec<u8>), Error> {
        let Question { path, workspace, body, patience: timeout } = question;
        match self.exchange(peer, path, Some(workspace), body, timeout, QUESTION_RESPONSE_BYTES_MAX).await {
            Ok((status, body)) => Ok((status.as_u16(), body.into())),
            Err(SendError::NotTaken(why)) => {
                tracing::debug!(peer = %peer.id, path, why, "a node did not accept a question");
                Err(Error::Unreachable(peer.id))
            }
            Err(SendError::NoAnswer(why)) => {
                tracing::debug!(peer = %peer.id, path, why, "a node has not answered a question");
                Err(Error::OutcomeUnknown(peer.id))
            }
        }
    }

    fn hint(&self, peer: &Peer, hint: Hint) {
        let mut outboxes = self.outboxes();
        let is_idle = !outboxes.contains_key(&peer.id);
        outboxes.entry(peer.id).or_default().add(hint);
        drop(outboxes);
        if is_idle {
            self.0.runtime.spawn(self.clone().say(peer.clone()));
        }
    }
}

/// The meaning of a response's status.
fn check_status(status: StatusCode, body: Bytes) -> Result<Bytes, SendError> {
    if status.is_success() {
        return Ok(body);
    }
    let detail = serde_json::from_slice::<serde_json::Value>(&body).ok();
    let detail = detail.as_ref().and_then(|body| body["detail"].as_str()).unwrap_or("without a reason").to_owned();
    let why = format!("{status}: {detail}");
    // The listener rejects a request before it does anything.
    let is_refused = status.is_client_error() || status == StatusCode::SERVICE_UNAVAILABLE;
    Err(if is_refused { SendError::NotTaken(why) } else { SendError::NoAnswer(why) })
}

/// An error with its causes.
fn describe(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// 128 random bits.
fn fresh() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
    u128::from_ne_bytes(bytes)
}
