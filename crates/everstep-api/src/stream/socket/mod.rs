//! `/v1/socket`: many runs, and the workspace, over one WebSocket, for browsers.
//!
//! Browsers open at most six HTTP/1.1 connections to a server, so a tab cannot have a stream per run.
//!
//! * `message` reads the requests of a client and renders the messages to it.
//! * `session` is one socket: the runs that it follows, each with a task that waits while the client does not read.

mod message;
mod session;

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::auth::{Caller, TICKET};
use crate::http::headers;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

/// The size of a request of a client.
const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// The size at which a frame is not read to its end.
const FRAME_BYTES_MAX: usize = 128 * 1024;

pub(crate) const PARAMETERS: &[Parameter] =
    &[Parameter::text(TICKET, "A ticket instead of an API key, for browsers: `POST /v1/tickets`.")];

pub(crate) async fn open(
    State(app): State<AppState>,
    caller: Caller,
    _: Query,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = upgrade.map_err(|error| {
        let detail = format!("the request is not a WebSocket upgrade: {error}");
        let hint = "connect with a WebSocket, or follow a run with GET /v1/runs/{id}/events";
        Problem::new(StatusCode::UPGRADE_REQUIRED, "UPGRADE_REQUIRED", detail).hint(hint)
    })?;
    check_origin(&headers)?;
    let slot = app.hub.slots.take_slot(&caller)?;
    let upgrade = upgrade.max_message_size(FRAME_BYTES_MAX).max_frame_size(FRAME_BYTES_MAX);
    Ok(upgrade.on_upgrade(|socket| session::run(app, caller, socket, slot)).into_response())
}

/// Rejects a page of another site: its script could use a ticket that it has found. Programs send no origin.
fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers::once(headers, header::ORIGIN.as_str())? else { return Ok(()) };
    let host = headers::once(headers, header::HOST.as_str())?.unwrap_or_default();
    let authority = origin.split_once("://").map_or(origin, |(_, authority)| authority);
    if authority.eq_ignore_ascii_case(host) {
        return Ok(());
    }
    let detail = format!("the page of {origin:?} may not open a socket of {host:?}");
    let hint = "open the console at the address of the server; a proxy must pass the header Host unchanged";
    Err(Problem::new(StatusCode::FORBIDDEN, "ORIGIN_REFUSED", detail).hint(hint))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_our_own_page_opens_a_socket() {
        let check = |origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("Example.com:7373"));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            }
            check_origin(&headers).is_ok()
        };
        assert!(check(None) && check(Some("http://example.com:7373")) && check(Some("https://example.com:7373")));
        for other in ["http://example.com", "http://evil.example", "null", "http://example.com:7373.evil.example"] {
            assert!(!check(Some(other)), "{other}");
        }
    }
}
