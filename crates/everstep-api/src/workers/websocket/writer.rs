//! Writes messages and other frames to a worker.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message as Frame, WebSocket};
use everstep_engine::{self as engine, Session};
use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::connection::CLOSE_TIMEOUT;
use super::outgoing::{OutgoingFrame, close_code};
use crate::workers::messages::NumberedMessage;

/// A worker that reads nothing for this long is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct Writer {
    pub(super) sink: SplitSink<WebSocket, Frame>,
    pub(super) session: Arc<Session>,
    pub(super) carrier: u64,
}

impl Writer {
    /// Writes until a close frame is sent or the worker has disconnected.
    pub(super) async fn run(mut self, welcome: Cow<'static, str>, mut frames: mpsc::Receiver<OutgoingFrame>) {
        // An error means that the worker has disconnected.
        let _ = self.write_all(welcome, &mut frames).await;
        let _ = timeout(CLOSE_TIMEOUT, self.sink.close()).await;
    }

    async fn write_all(
        &mut self,
        welcome: Cow<'static, str>,
        frames: &mut mpsc::Receiver<OutgoingFrame>,
    ) -> Result<(), Disconnected> {
        self.send(OutgoingFrame::Text(welcome)).await?;
        // Messages that were sent over an earlier socket and that the worker may not have received.
        for message in self.session.unseen() {
            self.feed(&message).await?;
        }
        self.flush().await?;
        loop {
            tokio::select! {
                biased;
                frame = frames.recv() => match frame {
                    Some(frame @ OutgoingFrame::Text(_)) => self.send(frame).await?,
                    Some(frame @ OutgoingFrame::Close(..)) => return self.send(frame).await,
                    None => return Ok(()),
                },
                () = self.session.any_news(self.carrier) => {
                    if self.session.is_over() {
                        return self.send(OutgoingFrame::Close(close_code::GONE, "the session has ended")).await;
                    }
                    if !self.session.is_carried_by(self.carrier) {
                        let reason = "another connection has taken over the session";
                        return self.send(OutgoingFrame::Close(close_code::REPLACED, reason)).await;
                    }
                    while let Some(message) = self.session.next_batch_for(self.carrier) {
                        self.feed(&message).await?;
                    }
                    self.flush().await?;
                }
            }
        }
    }

    async fn feed(&mut self, batch: &engine::WorkerBatch) -> Result<(), Disconnected> {
        let frame = Frame::Text(NumberedMessage::new(batch).json().into());
        in_time(self.sink.feed(frame)).await
    }

    async fn send(&mut self, frame: OutgoingFrame) -> Result<(), Disconnected> {
        in_time(self.sink.send(frame.into())).await
    }

    async fn flush(&mut self) -> Result<(), Disconnected> {
        in_time(self.sink.flush()).await
    }
}

/// The worker has closed the socket, or reads nothing.
struct Disconnected;

async fn in_time(write: impl Future<Output = Result<(), axum::Error>>) -> Result<(), Disconnected> {
    match timeout(WRITE_TIMEOUT, write).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(Disconnected),
    }
}
