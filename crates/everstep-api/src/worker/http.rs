//! Speaks with workers over HTTP.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use everstep_engine::SessionId;

use super::BYTES;
use super::away::{self, Place};
use super::held::{self, Poll, Sent};
use super::hello::{Hello, Welcome};
use crate::auth::{self, Caller};
use crate::body::Body;
use crate::deadline::within_deadline;
use crate::problem::Problem;
use crate::server::Served;

/// Opens a session.
pub(crate) async fn open(
    State(served): State<Served>,
    caller: Caller,
    body: Body<BYTES>,
) -> Result<(StatusCode, Json<Welcome>), Problem> {
    let hello: Hello = body.json()?;
    let session = within_deadline(served.engine.open_session(hello.check(caller.workspace)?)).await?;
    Ok((StatusCode::CREATED, Json(Welcome::to(&served.engine, &session))))
}

/// A worker leaves in order.
pub(crate) async fn close(
    State(served): State<Served>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    if id.parse::<SessionId>().is_err() {
        return Err(Problem::not_found("that is no session's id"));
    }
    match away::place(&served.engine, caller.workspace, &id).await? {
        Place::Here(session) => served.engine.close_session(&session),
        Place::At(peer) => away::pass_close(&served.engine, caller.workspace, &peer, id).await?,
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Tells a worker what there is, as soon as there is something.
pub(crate) async fn poll(State(served): State<Served>, caller: Caller, body: Body<BYTES>) -> Result<Response, Problem> {
    let poll: Poll = body.json()?;
    poll.check()?;
    match place(&served, &caller, &poll.session).await? {
        Place::Here(session) => {
            let told = tokio::select! {
                told = held::poll(&served.engine, &session, &poll) => told?,
                // The worker goes on at another node.
                () = served.live.stopped() => held::nothing(),
            };
            Ok(json(told))
        }
        Place::At(peer) => {
            let passed = away::pass_poll(&served.engine, caller.workspace, &peer, body.bytes());
            tokio::select! {
                told = passed => counted(&served, &caller, told),
                () = served.live.stopped() => Ok(json(held::nothing())),
            }
        }
    }
}

/// Takes reports, and answers when they are in the journal.
pub(crate) async fn reports(
    State(served): State<Served>,
    caller: Caller,
    body: Body<BYTES>,
) -> Result<Response, Problem> {
    let sent = Sent::read(&body)?;
    match place(&served, &caller, &sent.session).await? {
        Place::Here(session) => held::reports(&served.engine, &session, sent).await.map(json),
        Place::At(peer) => {
            let passed = away::pass_reports(&served.engine, caller.workspace, &peer, body.bytes()).await;
            counted(&served, &caller, passed)
        }
    }
}

/// Finds a session. What is said in one is bounded by it; what is said in none is counted against the key's limit.
async fn place(served: &Served, caller: &Caller, id: &str) -> Result<Place, Problem> {
    if let Some(place) = away::known(&served.engine, caller.workspace, id) {
        return Ok(place);
    }
    auth::count_request(served, caller)?;
    away::place(&served.engine, caller.workspace, id).await
}

/// What another node answers. If it has no such session, it is counted too.
fn counted(served: &Served, caller: &Caller, answer: Result<Vec<u8>, Problem>) -> Result<Response, Problem> {
    if answer.as_ref().is_err_and(Problem::is_gone) {
        auth::count_request(served, caller)?;
    }
    answer.map(json)
}

fn json(body: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
