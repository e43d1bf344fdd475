//! `/socket.io/`: a run as Socket.IO events, for the stock `socket.io-client`.
//!
//! Socket.IO 5 over Engine.IO 4, implemented here because two requirements are not met by the available servers: a
//! rejection with a code, and senders that wait while their client does not read.
//!
//! * `packet` reads and writes the protocol; `session` is one connection, by a WebSocket or by `poll`.
//! * `room` is one run that a connection has joined; `events` are the Socket.IO events that it sends.

mod events;
mod packet;
mod poll;
mod room;
mod session;

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use http_body_util::LengthLimitError;

pub(crate) use self::poll::Polls;
use crate::auth;
use crate::http::body;
use crate::http::headers::check_content_coding;
use crate::http::listen::PeerAddress;
use crate::http::problem::Problem;
use crate::server::AppState;

/// The maximum size of a request. Clients only send requests.
const REQUEST_BYTES_MAX: usize = 64 * 1024;

/// Opens a connection, or answers a poll.
pub(crate) async fn open(
    State(app): State<AppState>,
    uri: Uri,
    headers: HeaderMap,
    peer: Option<Extension<PeerAddress>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let (asked, ticket) = Asked::read(&app, &uri)?;
    if let Asked::Poll { sid: Some(sid) } = &asked {
        return poll::get(&app, sid).await;
    }
    // A wrong key is reported in the protocol's own form, which a client can read.
    let shown = match (auth::sent_key(&headers), ticket) {
        (Ok(Some(_)), Some(_)) => Err(auth::reject("send either one ticket or an API key, not both")),
        (Ok(Some(text)), None) => auth::authenticate_header(&app, text).await.map(Some),
        (Ok(None), Some(ticket)) => auth::authenticate_ticket(&app, &ticket).await.map(Some),
        (Ok(None), None) => Ok(None),
        (Err(problem), _) => Err(problem),
    };
    let slot = match &shown {
        Ok(Some(caller)) => app.hub.slots.take_slot(caller)?,
        Ok(None) | Err(_) => app.hub.slots.take_unauthenticated(peer.map(|Extension(peer)| peer.0))?,
    };
    if let Asked::Poll { .. } = asked {
        return poll::open(app, shown, slot).await;
    }
    let upgrade = upgrade
        .map_err(|error| Problem::invalid(format!("this is not a WebSocket upgrade: {error}")).hint(TRANSPORT))?;
    let upgrade = upgrade.max_message_size(REQUEST_BYTES_MAX).max_frame_size(REQUEST_BYTES_MAX);
    Ok(upgrade.on_upgrade(|socket| session::run(app, socket, shown, slot)).into_response())
}

/// Handles the packets of a polling client.
pub(crate) async fn hear(State(app): State<AppState>, uri: Uri, request: Request) -> Result<Response, Problem> {
    let (Asked::Poll { sid: Some(sid) }, _) = Asked::read(&app, &uri)? else {
        return Err(Problem::invalid("send packets to an open polling connection").hint(TRANSPORT));
    };
    check_content_coding(request.headers())?;
    match body::read(request.into_body(), REQUEST_BYTES_MAX, body::READ_TIMEOUT).await {
        Ok(body) => poll::post(&app, &sid, &body).await,
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Problem::too_large(format!("a client sends at most {REQUEST_BYTES_MAX} bytes in one request")))
        }
        Err(error) => {
            poll::close(&app, &sid);
            Err(Problem::invalid(format!("the packets could not be read: {error}; the connection is closed")))
        }
    }
}

const TRANSPORT: &str = "connect with io(url, { transports: [\"websocket\"] })";

/// The transport of a client.
#[derive(Debug)]
enum Asked {
    WebSocket,
    /// Its present connection, if it has one.
    Poll {
        sid: Option<String>,
    },
}

impl Asked {
    /// Reads the query: the transport, and a ticket.
    fn read(app: &AppState, uri: &Uri) -> Result<(Self, Option<String>), Problem> {
        let query = uri.query().unwrap_or_default();
        auth::reject_keys_in_query(query)?;
        let (asked, ticket) = Self::parse(query)?;
        if matches!(asked, Self::Poll { .. }) && app.engine.is_shared() {
            let detail =
                "with several nodes polling is not supported: a poll may reach another node than the previous one";
            return Err(Problem::new(StatusCode::BAD_REQUEST, "TRANSPORT_REFUSED", detail).hint(TRANSPORT));
        }
        Ok((asked, ticket))
    }

    fn parse(query: &str) -> Result<(Self, Option<String>), Problem> {
        let (mut version, mut transport, mut sid, mut ticket) = (None, None, None, None);
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "EIO" => version = Some(value.into_owned()),
                "transport" => transport = Some(value.into_owned()),
                "sid" => sid = Some(value.into_owned()),
                auth::TICKET => ticket = Some(value.into_owned()),
                // A parameter that clients add to avoid caches.
                "t" | "b64" => {}
                _ => {
                    let hint = "a Socket.IO client sends EIO and transport";
                    return Err(Problem::invalid(format!("unknown query parameter {name:?}")).hint(hint));
                }
            }
        }
        if version.as_deref() != Some("4") {
            let hint = "use socket.io-client 3 or 4, which sends EIO=4";
            return Err(Problem::invalid("this server supports Engine.IO 4").hint(hint));
        }
        match (transport.as_deref(), sid) {
            (Some("polling"), sid) => Ok((Self::Poll { sid }, ticket)),
            (Some("websocket"), None) => Ok((Self::WebSocket, ticket)),
            (Some("websocket"), Some(_)) => {
                Err(Problem::invalid("a connection cannot change its transport").hint(TRANSPORT))
            }
            (_, _) => {
                let detail = "the transports are websocket and polling";
                Err(Problem::new(StatusCode::BAD_REQUEST, "TRANSPORT_REFUSED", detail).hint(TRANSPORT))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_names_its_transport() {
        assert!(matches!(Asked::parse("EIO=4&transport=websocket&t=abc"), Ok((Asked::WebSocket, None))));
        assert!(matches!(Asked::parse("EIO=4&transport=polling"), Ok((Asked::Poll { sid: None }, None))));
        assert!(matches!(Asked::parse("EIO=4&transport=polling&sid=1"), Ok((Asked::Poll { sid: Some(_) }, None))));
        let ticket = Asked::parse("EIO=4&transport=websocket&ticket=est_1");
        assert!(matches!(ticket, Ok((Asked::WebSocket, Some(ticket))) if ticket == "est_1"));
        let wrong = ["", "EIO=3&transport=websocket", "EIO=4", "EIO=4&transport=x", "EIO=4&transport=websocket&x="];
        for wrong in wrong.into_iter().chain(["EIO=4&transport=websocket&sid=1"]) {
            assert!(Asked::parse(wrong).is_err(), "{wrong}");
        }
    }
}
