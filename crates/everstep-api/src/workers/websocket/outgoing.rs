//! Frames besides messages, and the ends of a socket.

use std::borrow::Cow;

use axum::extract::ws::{CloseFrame, Message as Frame, WebSocket};
use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use tokio::time::timeout;

use super::connection::CLOSE_TIMEOUT;
use crate::http::problem::Problem;
use crate::workers::messages;

/// The codes with which the server closes a socket.
pub(super) mod close_code {
    /// The worker has ended its session.
    pub(in super::super) const BYE: u16 = 1000;
    /// The server stops.
    pub(in super::super) const STOPPING: u16 = 1001;
    /// A frame is not valid.
    pub(in super::super) const PROBLEM: u16 = 4400;
    /// The API key was revoked, has expired or lacks the permission.
    pub(in super::super) const KEY: u16 = 4401;
    /// Another socket has taken over the session.
    pub(in super::super) const REPLACED: u16 = 4409;
    /// The session has ended.
    pub(in super::super) const GONE: u16 = 4410;
}

/// A frame besides messages.
pub(super) enum OutgoingFrame {
    Text(Cow<'static, str>),
    Close(u16, &'static str),
}

impl From<OutgoingFrame> for Frame {
    fn from(frame: OutgoingFrame) -> Self {
        match frame {
            OutgoingFrame::Text(text) => Self::Text(text.into_owned().into()),
            OutgoingFrame::Close(code, reason) => Self::Close(Some(CloseFrame { code, reason: reason.into() })),
        }
    }
}

/// Why no more frames are read.
pub(super) enum SocketEnd {
    /// These frames are sent last.
    Frames(Vec<OutgoingFrame>),
    /// The worker has disconnected, or the writer sends the reason.
    Disconnected,
}

impl SocketEnd {
    pub(super) fn close(code: u16, reason: &'static str) -> Self {
        Self::Frames(vec![OutgoingFrame::Close(code, reason)])
    }

    /// A frame is not valid.
    pub(super) fn problem(problem: &Problem) -> Self {
        Self::with_document("problem", problem, close_code::PROBLEM, "see the previous frame")
    }

    /// The session does not exist.
    pub(super) fn gone(problem: &Problem) -> Self {
        Self::with_document("gone", problem, close_code::GONE, "the session has ended")
    }

    /// The key is no longer valid.
    pub(super) fn key(problem: &Problem) -> Self {
        Self::with_document("problem", problem, close_code::KEY, "the API key is no longer valid")
    }

    fn with_document(name: &'static str, problem: &Problem, code: u16, reason: &'static str) -> Self {
        let document = messages::object_with(name, &problem.document());
        Self::Frames(vec![OutgoingFrame::Text(document), OutgoingFrame::Close(code, reason)])
    }
}

/// Sends frames and closes the socket.
pub(super) async fn send_last(sink: &mut SplitSink<WebSocket, Frame>, frames: Vec<OutgoingFrame>) {
    for frame in frames {
        if timeout(CLOSE_TIMEOUT, sink.send(frame.into())).await.is_err() {
            return;
        }
    }
    let _ = timeout(CLOSE_TIMEOUT, sink.close()).await;
}
