//! The listener for other nodes. A request without a valid signature is rejected before anything is done.

use std::io;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};
use everstep_core::ids::WorkspaceId;
use everstep_core::limits;
use everstep_core::run::Reply;
use everstep_engine::{Engine, Error, FEED_PATH, Hint, RunInput};
use futures_util::future::BoxFuture;
use tokio::net::TcpListener;

use crate::cluster::nonces::{Admission, Nonces};
use crate::cluster::signature::{SignedHeader, SignedRequest};
use crate::cluster::{ClusterKey, HINTS_PATH, INPUTS_PATH};
use crate::http::body;
use crate::http::listen;
use crate::http::problem::Problem;
use crate::stream::workspace;
use crate::workers;

/// Bytes of a request between nodes: a worker's reports, or a payload, with its envelope.
const BODY_BYTES_MAX: usize = 4 * limits::PAYLOAD_BYTES + 64 * 1024;

#[derive(Clone)]
struct ListenerState {
    engine: Engine,
    key: ClusterKey,
    nonces: Arc<Mutex<Nonces>>,
}

/// Answers other nodes until `stop` is ready.
pub fn serve(
    listener: TcpListener,
    engine: Engine,
    key: ClusterKey,
    stop: impl Future<Output = ()> + Send + 'static,
) -> BoxFuture<'static, io::Result<()>> {
    let state = ListenerState { engine, key, nonces: Arc::default() };
    let router = Router::new()
        .route(INPUTS_PATH, post(deliver))
        .route(HINTS_PATH, post(hints))
        .route(workers::forward::POLL, post(poll))
        .route(workers::forward::REPORTS, post(reports))
        .route(workers::forward::CLOSE, post(close))
        .route(workers::forward::LIST, post(workers))
        .route(FEED_PATH, post(feed))
        .fallback(nothing)
        .method_not_allowed_fallback(nothing)
        .with_state(state);
    listen::serve(listener, router, usize::MAX, Box::pin(stop))
}

/// Accepts an input for a run that this node or no node owns.
async fn deliver(State(state): State<ListenerState>, signed: Signed) -> Result<Json<Result<Reply, Error>>, Problem> {
    let input: RunInput = signed.read()?;
    if signed.header.caller != Some(input.workspace) {
        return Err(Problem::invalid("the workspace of the caller differs from that of the input"));
    }
    Ok(Json(state.engine.receive(input).await))
}

async fn hints(State(state): State<ListenerState>, signed: Signed) -> Result<StatusCode, Problem> {
    let hints: Vec<Hint> = signed.read()?;
    for hint in hints {
        state.engine.hinted(hint);
    }
    Ok(StatusCode::ACCEPTED)
}

/// A request of another node's caller for a worker's session on this node.
async fn poll(State(state): State<ListenerState>, signed: Signed) -> Result<Vec<u8>, Problem> {
    workers::forward::poll(&state.engine, signed.workspace()?, &signed.body).await
}

async fn reports(State(state): State<ListenerState>, signed: Signed) -> Result<Vec<u8>, Problem> {
    workers::forward::reports(&state.engine, signed.workspace()?, &signed.body).await
}

async fn close(State(state): State<ListenerState>, signed: Signed) -> Result<(), Problem> {
    workers::forward::close(&state.engine, signed.workspace()?, &signed.body)
}

async fn workers(State(state): State<ListenerState>, signed: Signed) -> Result<Vec<u8>, Problem> {
    Ok(workers::forward::list(&state.engine, signed.workspace()?))
}

/// The runs of a workspace that have changed on this node, for followers on another one.
async fn feed(State(state): State<ListenerState>, signed: Signed) -> Result<Vec<u8>, Problem> {
    workspace::answer(&state.engine, signed.workspace()?, &signed.body)
}

/// Answers signed requests to unknown paths. The response to an unsigned request does not show which paths exist.
async fn nothing(_: Signed) -> impl IntoResponse {
    StatusCode::NOT_FOUND
}

/// A request that another node of this cluster sent to this one, recently and for the first time.
struct Signed {
    header: SignedHeader,
    body: Bytes,
}

impl Signed {
    /// The workspace of the caller.
    fn workspace(&self) -> Result<WorkspaceId, Problem> {
        self.header.caller.ok_or_else(|| Problem::invalid("it has no workspace of a caller"))
    }

    fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_json::from_slice(&self.body).map_err(|error| Problem::invalid(error.to_string()))
    }
}

impl FromRequest<ListenerState> for Signed {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &ListenerState) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let opened = SignedHeader::open(&parts.headers);
        let (header, signature) = opened.ok_or_else(|| reject("it is not signed"))?;
        // A request that is rejected by its headers alone costs nothing more.
        let now = state.engine.world().clock.now();
        if !header.is_timely(now) {
            return Err(reject(
                "its time differs too much from the time of this node; check that all nodes use one database",
            ));
        }
        let body = body::read(body, BODY_BYTES_MAX, body::READ_TIMEOUT).await;
        let body = body.map_err(|error| Problem::invalid(format!("the body could not be read: {error}")))?;
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let request = SignedRequest { method: parts.method.as_str(), path, body: &body };
        if !header.verify(&state.key, request, &signature) {
            return Err(reject("its signature is wrong; check that all nodes have the same EVERSTEP_CLUSTER_KEY"));
        }
        let admission =
            state.nonces.lock().expect("no holder of the lock panics").admit(header.nonce, header.time, now);
        match admission {
            Admission::Fresh => {}
            Admission::Replayed => return Err(reject("it was sent before")),
            Admission::Full => return Err(Problem::unavailable("too many requests of other nodes; try again")),
        }
        if header.target != state.engine.node() {
            let detail = format!(
                "node {} no longer exists at this address; the present node is {}",
                header.target,
                state.engine.node()
            );
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "UNAVAILABLE", detail));
        }
        Ok(Self { header, body })
    }
}

fn reject(why: &str) -> Problem {
    tracing::warn!(why, "rejected a request at the address of the cluster");
    Problem::new(StatusCode::UNAUTHORIZED, "AUTH_ERROR", format!("the request was rejected: {why}"))
}
