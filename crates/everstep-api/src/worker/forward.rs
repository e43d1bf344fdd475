//! Workers whose sessions other nodes hold. A session belongs to the node that opened it; whoever is asked for it
//! passes the question on.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::StatusCode;
use everstep_core::ids::WorkspaceId;
use everstep_engine::{Engine, Error, Peer, Question, Session, SessionId};
use serde::{Deserialize, Serialize};

use super::held::{self, Poll, Sent};
use super::list::Worker;
use super::{ANSWERED, BYTES, HELD, gone};
use crate::body::Body;
use crate::problem::Problem;

pub(crate) const POLL: &str = "/cluster/v1/worker/poll";
pub(crate) const REPORTS: &str = "/cluster/v1/worker/reports";
pub(crate) const CLOSE: &str = "/cluster/v1/worker/close";
pub(crate) const LIST: &str = "/cluster/v1/workers";

/// How long the way there and back may take.
const WAY: Duration = Duration::from_secs(5);

/// Where a session is.
pub(super) enum Place {
    Here(Arc<Session>),
    At(Peer),
}

#[derive(Serialize, Deserialize)]
struct Close {
    session: String,
}

/// The parts of a problem document that are handed on.
#[derive(Deserialize)]
struct Refused {
    code: String,
    detail: String,
    hint: Option<String>,
}

/// Finds a session by its id, which names its node, without asking the database.
pub(super) fn known(engine: &Engine, workspace: WorkspaceId, id: &str) -> Option<Place> {
    let id = id.parse::<SessionId>().ok()?;
    match engine.session(workspace, id) {
        Some(session) => Some(Place::Here(session)),
        None => engine.known_peer(id.node).map(Place::At),
    }
}

/// Finds a session by its id. Its node may have joined since the last tick.
pub(super) async fn place(engine: &Engine, workspace: WorkspaceId, id: &str) -> Result<Place, Problem> {
    if let Some(place) = known(engine, workspace, id) {
        return Ok(place);
    }
    let id = id.parse::<SessionId>().map_err(|_| gone())?;
    if id.node == engine.node() || !engine.is_shared() {
        return Err(gone());
    }
    engine.peer(id.node).await?.map(Place::At).ok_or_else(gone)
}

/// A session of this node.
pub(super) fn find(engine: &Engine, workspace: WorkspaceId, id: &str) -> Result<Arc<Session>, Problem> {
    let id = id.parse::<SessionId>().map_err(|_| gone())?;
    engine.session(workspace, id).ok_or_else(gone)
}

pub(super) async fn pass_poll(
    engine: &Engine,
    workspace: WorkspaceId,
    peer: &Peer,
    body: &Bytes,
) -> Result<Vec<u8>, Problem> {
    pass(engine, peer, Question { path: POLL, workspace, body: body.to_vec(), patience: HELD + WAY }).await
}

pub(super) async fn pass_reports(
    engine: &Engine,
    workspace: WorkspaceId,
    peer: &Peer,
    body: &Bytes,
) -> Result<Vec<u8>, Problem> {
    pass(engine, peer, Question { path: REPORTS, workspace, body: body.to_vec(), patience: ANSWERED + WAY }).await
}

pub(super) async fn pass_close(
    engine: &Engine,
    workspace: WorkspaceId,
    peer: &Peer,
    session: String,
) -> Result<(), Problem> {
    let body = serde_json::to_vec(&Close { session }).expect("an id is plain data");
    pass(engine, peer, Question { path: CLOSE, workspace, body, patience: WAY }).await.map(|_| ())
}

/// Asks the node that has a session. Everything may be asked again, so that nothing is lost by a lost answer.
async fn pass(engine: &Engine, peer: &Peer, question: Question) -> Result<Vec<u8>, Problem> {
    match engine.world().peers.ask(peer, question).await {
        Ok((200, body)) => Ok(body),
        // The session has ended, or the node is another one by now.
        Ok((410 | 421, _)) => Err(gone()),
        // It would be refused again: whoever sent it is to know.
        Ok((status @ (400 | 413 | 422), body)) => Err(refused(status, &body)),
        Ok((status, _)) => Err(unreachable(peer, &format!("answered with {status}"))),
        Err(Error::Unreachable(_)) => Err(unreachable(peer, "cannot be reached")),
        Err(_) => Err(unreachable(peer, "has not answered")),
    }
}

/// What another node has said of a request, in its words.
fn refused(status: u16, body: &[u8]) -> Problem {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    match serde_json::from_slice::<Refused>(body) {
        Ok(Refused { code, detail, hint: None }) => Problem::new(status, code, detail),
        Ok(Refused { code, detail, hint: Some(hint) }) => Problem::new(status, code, detail).hint(hint),
        Err(_) => Problem::new(status, "VALIDATION_ERROR", "the node that has the session refused the message"),
    }
}

fn unreachable(peer: &Peer, why: &str) -> Problem {
    Problem::unavailable(format!("node {}, which has the session, {why}; send the same again", peer.id))
}

/// Answers a poll that another node was asked.
pub(crate) async fn poll(engine: &Engine, workspace: WorkspaceId, body: &Bytes) -> Result<Vec<u8>, Problem> {
    let poll: Poll = Body::<BYTES>::from_bytes(body.clone()).json()?;
    poll.check()?;
    held::poll(engine, &*find(engine, workspace, &poll.session)?, &poll).await
}

/// Takes reports that another node was sent.
pub(crate) async fn reports(engine: &Engine, workspace: WorkspaceId, body: &Bytes) -> Result<Vec<u8>, Problem> {
    let sent = Sent::read(&Body::<BYTES>::from_bytes(body.clone()))?;
    let session = find(engine, workspace, &sent.session)?;
    held::reports(engine, &session, sent).await
}

/// Closes a session, as another node was asked to.
pub(crate) fn close(engine: &Engine, workspace: WorkspaceId, body: &Bytes) -> Result<(), Problem> {
    let Close { session } = Body::<BYTES>::from_bytes(body.clone()).json()?;
    engine.close_session(&*find(engine, workspace, &session)?);
    Ok(())
}

/// The workers of this node, for another one.
pub(crate) fn list(engine: &Engine, workspace: WorkspaceId) -> Vec<u8> {
    serde_json::to_vec(&Worker::here(engine, workspace)).expect("workers are plain data")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_node_of_a_session_refuses_is_handed_on_in_its_words() {
        let said = Problem::invalid("9 messages were sent").hint("send `seen`").with("path", "seen");
        let heard = refused(400, &serde_json::to_vec(&said.document()).unwrap());
        let document = serde_json::to_value(heard.document()).unwrap();
        assert_eq!((&document["status"], &document["code"]), (&400.into(), &"VALIDATION_ERROR".into()), "{document}");
        assert_eq!((&document["detail"], &document["hint"]), (&"9 messages were sent".into(), &"send `seen`".into()));
        let heard = serde_json::to_value(refused(413, b"<html>").document()).unwrap();
        assert_eq!(heard["status"], 413, "{heard}");
    }
}
