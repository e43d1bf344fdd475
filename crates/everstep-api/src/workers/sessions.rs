//! Finds the node of a session. A session belongs to the node that opened it, and its id names that node.

use std::sync::Arc;

use axum::http::StatusCode;
use everstep_core::ids::WorkspaceId;
use everstep_engine::{Engine, Peer, Session, SessionId};

use crate::http::problem::Problem;

/// The node of a session.
pub(super) enum SessionLocation {
    Local(Arc<Session>),
    Remote(Peer),
}

/// Locates a session without a query to the database.
pub(super) fn locate_cached(engine: &Engine, workspace: WorkspaceId, id: &str) -> Option<SessionLocation> {
    let id = id.parse::<SessionId>().ok()?;
    match engine.session(workspace, id) {
        Some(session) => Some(SessionLocation::Local(session)),
        None => engine.known_peer(id.node).map(SessionLocation::Remote),
    }
}

/// Locates a session. Its node may have joined the cluster since the last tick of this node.
pub(super) async fn locate(engine: &Engine, workspace: WorkspaceId, id: &str) -> Result<SessionLocation, Problem> {
    if let Some(location) = locate_cached(engine, workspace, id) {
        return Ok(location);
    }
    let id = id.parse::<SessionId>().map_err(|_| gone())?;
    if id.node == engine.node() || !engine.is_shared() {
        return Err(gone());
    }
    engine.peer(id.node).await?.map(SessionLocation::Remote).ok_or_else(gone)
}

/// A session of this node.
pub(super) fn find_local(engine: &Engine, workspace: WorkspaceId, id: &str) -> Result<Arc<Session>, Problem> {
    let id = id.parse::<SessionId>().map_err(|_| gone())?;
    engine.session(workspace, id).ok_or_else(gone)
}

/// The response to a request for a session that does not exist.
pub(super) fn gone() -> Problem {
    let detail = "the session is unknown or has ended";
    let hint = "open another with POST /v1/worker/sessions, name in `holds` the turns that the worker continues, and \
                send the unanswered reports again";
    Problem::new(StatusCode::GONE, "SESSION_GONE", detail).hint(hint)
}
