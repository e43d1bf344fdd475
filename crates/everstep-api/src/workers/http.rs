//! The worker protocol over HTTP requests.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use everstep_engine::SessionId;

use super::forward;
use super::hello::{Hello, Welcome};
use super::limits::REQUEST_BYTES_MAX;
use super::local::{self, Poll, SentReports};
use super::sessions::{self, SessionLocation};
use crate::auth::{self, Caller};
use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::run_deadline::within_store_deadline;
use crate::server::AppState;

/// Opens a session.
pub(crate) async fn open(
    State(app): State<AppState>,
    caller: Caller,
    body: Body<REQUEST_BYTES_MAX>,
) -> Result<(StatusCode, Json<Welcome>), Problem> {
    let hello: Hello = body.json()?;
    let hello = hello.check(caller.workspace, &*app.engine.world().evaluate)?;
    let session = within_store_deadline(&app, app.engine.open_session(hello)).await?;
    Ok((StatusCode::CREATED, Json(Welcome::to(&app.engine, &session))))
}

/// Ends a session in order.
pub(crate) async fn close(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    if id.parse::<SessionId>().is_err() {
        return Err(Problem::not_found("this is not the id of a session"));
    }
    match sessions::locate(&app.engine, caller.workspace, &id).await? {
        SessionLocation::Local(session) => app.engine.close_session(&session),
        SessionLocation::Remote(peer) => {
            forward::forward_close(&app.engine, caller.workspace, &peer, id).await?;
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Responds with the messages for a worker, as soon as there are any.
pub(crate) async fn poll(
    State(app): State<AppState>,
    caller: Caller,
    body: Body<REQUEST_BYTES_MAX>,
) -> Result<Response, Problem> {
    let poll: Poll = body.json()?;
    poll.check()?;
    match locate(&app, &caller, &poll.session).await? {
        SessionLocation::Local(session) => {
            let messages = tokio::select! {
                messages = local::poll(&app.engine, &session, &poll) => messages?,
                // The worker polls another node next.
                () = app.hub.stopped() => local::no_messages(),
            };
            Ok(json(messages))
        }
        SessionLocation::Remote(peer) => {
            let forwarded = forward::forward_poll(&app.engine, caller.workspace, &peer, body.bytes());
            tokio::select! {
                messages = forwarded => count_if_gone(&app, &caller, messages),
                () = app.hub.stopped() => Ok(json(local::no_messages())),
            }
        }
    }
}

/// Accepts reports, and responds when they are in the journal.
pub(crate) async fn reports(
    State(app): State<AppState>,
    caller: Caller,
    body: Body<REQUEST_BYTES_MAX>,
) -> Result<Response, Problem> {
    let sent = SentReports::read(&body)?;
    match locate(&app, &caller, &sent.session).await? {
        SessionLocation::Local(session) => local::reports(&app.engine, &session, sent).await.map(json),
        SessionLocation::Remote(peer) => {
            let forwarded = forward::forward_reports(&app.engine, caller.workspace, &peer, body.bytes()).await;
            count_if_gone(&app, &caller, forwarded)
        }
    }
}

/// Locates a session. Requests of a session are bounded by the session; a request without one counts against the rate
/// limit of the API key.
async fn locate(app: &AppState, caller: &Caller, id: &str) -> Result<SessionLocation, Problem> {
    if let Some(location) = sessions::locate_cached(&app.engine, caller.workspace, id) {
        return Ok(location);
    }
    auth::count_request(app, caller)?;
    sessions::locate(&app.engine, caller.workspace, id).await
}

/// The response of another node. If that node does not have the session, the request counts against the rate limit too.
fn count_if_gone(app: &AppState, caller: &Caller, response: Result<Vec<u8>, Problem>) -> Result<Response, Problem> {
    if response.as_ref().is_err_and(Problem::is_gone) {
        auth::count_request(app, caller)?;
    }
    response.map(json)
}

fn json(body: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
