//! `/socket.io/`: a run as Socket.IO events, for the stock `socket.io-client`.
//!
//! Socket.IO 5 over Engine.IO 4 over a WebSocket, written here because two things are asked for that the servers at
//! hand do not give: a refusal that carries a code, and senders that wait while their client does not read.
//!
//! * `packet` reads and writes the protocol; `session` is one connection.
//! * `room` is one run that a connection has joined; `words` are the events it is told in.

mod packet;
mod room;
mod session;
mod words;

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use crate::auth;
use crate::problem::Problem;
use crate::server::Served;

/// What a client may send at once. It asks; it has nothing to tell.
const MOST_BYTES: usize = 64 * 1024;

pub(crate) async fn open(
    State(served): State<Served>,
    uri: Uri,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let query = uri.query().unwrap_or_default();
    auth::refuse_keys(query)?;
    check_query(query)?;
    let upgrade =
        upgrade.map_err(|error| Problem::invalid(format!("this is no WebSocket: {error}")).hint(TRANSPORT))?;
    let slot = served.live.slots.take(None)?;
    // A key that is wrong is told of in the protocol's own words, which a client can read.
    let shown = match auth::given(&headers) {
        Ok(Some(text)) => auth::authenticate_header(&served, text).await.map(Some),
        Ok(None) => Ok(None),
        Err(problem) => Err(problem),
    };
    let upgrade = upgrade.max_message_size(MOST_BYTES).max_frame_size(MOST_BYTES);
    Ok(upgrade.on_upgrade(|socket| session::run(served, socket, shown, slot)).into_response())
}

const TRANSPORT: &str = "connect with io(url, { transports: [\"websocket\"] })";

fn check_query(query: &str) -> Result<(), Problem> {
    let (mut version, mut transport) = (None, None);
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "EIO" => version = Some(value.into_owned()),
            "transport" => transport = Some(value.into_owned()),
            // What clients add against caches.
            "t" | "b64" => {}
            "sid" => return Err(Problem::invalid("a connection cannot be taken over").hint(TRANSPORT)),
            _ => {
                let hint = "a Socket.IO client sends EIO and transport";
                return Err(Problem::invalid(format!("unknown query parameter {name:?}")).hint(hint));
            }
        }
    }
    if version.as_deref() != Some("4") {
        let hint = "use socket.io-client 3 or 4, which sends EIO=4";
        return Err(Problem::invalid("this server speaks Engine.IO 4").hint(hint));
    }
    if transport.as_deref() != Some("websocket") {
        let detail = "only the transport websocket is served: a poll may reach another node than the one before it";
        return Err(Problem::new(StatusCode::BAD_REQUEST, "TRANSPORT_REFUSED", detail).hint(TRANSPORT));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_sockets_of_the_version_are_served() {
        assert!(check_query("EIO=4&transport=websocket").is_ok());
        assert!(check_query("EIO=4&transport=websocket&t=abc").is_ok());
        for wrong in
            ["", "EIO=3&transport=websocket", "EIO=4", "EIO=4&transport=polling", "EIO=4&transport=websocket&x="]
        {
            assert!(check_query(wrong).is_err(), "{wrong}");
        }
    }
}
