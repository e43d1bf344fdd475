//! Requests for sessions of other nodes, and requests of other nodes for sessions of this one.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::StatusCode;
use everstep_core::ids::WorkspaceId;
use everstep_engine::{Engine, Error, Peer, Question};
use serde::{Deserialize, Serialize};

use super::limits::{POLL_WAIT_MAX, REPORTS_WAIT_MAX, REQUEST_BYTES_MAX};
use super::list::Worker;
use super::local::{self, Poll, SentReports};
use super::sessions::{find_local, gone};
use crate::http::body::Body;
use crate::http::problem::Problem;

pub(crate) const POLL: &str = "/cluster/v1/worker/poll";
pub(crate) const REPORTS: &str = "/cluster/v1/worker/reports";
pub(crate) const CLOSE: &str = "/cluster/v1/worker/close";
pub(crate) const LIST: &str = "/cluster/v1/workers";

/// The time for the round trip to another node, besides the time that the node itself may wait.
const PEER_ROUND_TRIP: Duration = Duration::from_secs(5);

#[derive(Serialize, Deserialize)]
struct CloseRequest {
    session: String,
}

/// The members of a problem document that are forwarded.
#[derive(Deserialize)]
struct ForwardedProblem {
    code: String,
    detail: String,
    hint: Option<String>,
}

pub(super) async fn forward_poll(
    engine: &Engine,
    workspace: WorkspaceId,
    peer: &Peer,
    body: &Bytes,
) -> Result<Vec<u8>, Problem> {
    let patience = POLL_WAIT_MAX + PEER_ROUND_TRIP;
    ask(engine, peer, Question { path: POLL, workspace, body: body.to_vec(), patience }).await
}

pub(super) async fn forward_reports(
    engine: &Engine,
    workspace: WorkspaceId,
    peer: &Peer,
    body: &Bytes,
) -> Result<Vec<u8>, Problem> {
    let patience = REPORTS_WAIT_MAX + PEER_ROUND_TRIP;
    ask(engine, peer, Question { path: REPORTS, workspace, body: body.to_vec(), patience }).await
}

pub(super) async fn forward_close(
    engine: &Engine,
    workspace: WorkspaceId,
    peer: &Peer,
    session: String,
) -> Result<(), Problem> {
    let body = serde_json::to_vec(&CloseRequest { session }).expect("an id is plain data");
    ask(engine, peer, Question { path: CLOSE, workspace, body, patience: PEER_ROUND_TRIP }).await.map(|_| ())
}

/// Sends a question to the node of a session. Every request may be repeated, so a lost response does no harm.
async fn ask(engine: &Engine, peer: &Peer, question: Question) -> Result<Vec<u8>, Problem> {
    match engine.world().peers.ask(peer, question).await {
        Ok((200, body)) => Ok(body),
        // The session has ended, or another node has the address now.
        Ok((410 | 421, _)) => Err(gone()),
        // A repeated request would be rejected again, so the worker gets the reason.
        Ok((status @ (400 | 413 | 422), body)) => Err(forward_problem(status, &body)),
        Ok((status, _)) => Err(unreachable(peer, &format!("responded with status {status}"))),
        Err(Error::Unreachable(_)) => Err(unreachable(peer, "cannot be reached")),
        Err(_) => Err(unreachable(peer, "has not replied")),
    }
}

/// The problem document of another node, with its code, detail and hint.
fn forward_problem(status: u16, body: &[u8]) -> Problem {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    match serde_json::from_slice::<ForwardedProblem>(body) {
        Ok(ForwardedProblem { code, detail, hint: None }) => Problem::new(status, code, detail),
        Ok(ForwardedProblem { code, detail, hint: Some(hint) }) => Problem::new(status, code, detail).hint(hint),
        Err(_) => Problem::new(status, "VALIDATION_ERROR", "the node of the session rejected the request"),
    }
}

fn unreachable(peer: &Peer, why: &str) -> Problem {
    Problem::unavailable(format!("node {}, which has the session, {why}; send the same request again", peer.id))
}

/// Serves a poll that another node forwards.
pub(crate) async fn poll(engine: &Engine, workspace: WorkspaceId, body: &Bytes) -> Result<Vec<u8>, Problem> {
    let poll: Poll = Body::<REQUEST_BYTES_MAX>::from_bytes(body.clone()).json()?;
    poll.check()?;
    local::poll(engine, &*find_local(engine, workspace, &poll.session)?, &poll).await
}

/// Accepts reports that another node forwards.
pub(crate) async fn reports(engine: &Engine, workspace: WorkspaceId, body: &Bytes) -> Result<Vec<u8>, Problem> {
    let sent = SentReports::read(&Body::<REQUEST_BYTES_MAX>::from_bytes(body.clone()))?;
    let session = find_local(engine, workspace, &sent.session)?;
    local::reports(engine, &session, sent).await
}

/// Ends a session for another node.
pub(crate) fn close(engine: &Engine, workspace: WorkspaceId, body: &Bytes) -> Result<(), Problem> {
    let CloseRequest { session } = Body::<REQUEST_BYTES_MAX>::from_bytes(body.clone()).json()?;
    engine.close_session(&*find_local(engine, workspace, &session)?);
    Ok(())
}

/// The workers of this node, for another one.
pub(crate) fn list(engine: &Engine, workspace: WorkspaceId) -> Vec<u8> {
    serde_json::to_vec(&Worker::of_this_node(engine, workspace)).expect("workers are plain data")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_of_the_session_s_node_is_forwarded_unchanged() {
        let sent = Problem::invalid("9 messages were sent").hint("send `seen`").with("path", "seen");
        let forwarded = forward_problem(400, &serde_json::to_vec(&sent.document()).unwrap());
        let document = serde_json::to_value(forwarded.document()).unwrap();
        assert_eq!((&document["status"], &document["code"]), (&400.into(), &"VALIDATION_ERROR".into()), "{document}");
        assert_eq!((&document["detail"], &document["hint"]), (&"9 messages were sent".into(), &"send `seen`".into()));
        let forwarded = serde_json::to_value(forward_problem(413, b"<html>").document()).unwrap();
        assert_eq!(forwarded["status"], 413, "{forwarded}");
    }
}
