//! One socket.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message as Frame, WebSocket};
use everstep_core::ids::RunId;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval_at, sleep, timeout};
use tokio_tungstenite::tungstenite;

use super::REQUEST_BYTES_MAX;
use super::message::{self, Command};
use crate::auth::Caller;
use crate::http::problem::Problem;
use crate::resources::runs::EntryForm;
use crate::server::AppState;
use crate::stream::feed::JoinedRun;
use crate::stream::pass::{self, KEY_CHECK_INTERVAL};
use crate::stream::slots::Slot;

/// The maximum number of runs that a socket follows.
const RUNS_MAX: usize = 64;
/// A client that reads nothing for this long is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// The time limit for the last frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Messages that wait for the connection, about all that it follows.
const QUEUED_MESSAGES_MAX: usize = 16;

/// Codes with which the server closes a socket.
mod close_code {
    /// The server stops.
    pub(super) const STOPPING: u16 = 1001;
    /// The client exceeds a limit, or its credential is no longer valid.
    pub(super) const POLICY: u16 = 1008;
}

/// The end of a socket whose client has sent a message that is too long.
const TOO_LONG: (u16, &str) = (close_code::POLICY, "a message has more than 64 KiB");

/// Serves a socket until one side ends it. The slot of the socket is free after that.
pub(super) async fn run(app: AppState, caller: Caller, socket: WebSocket, _slot: Slot) {
    let (sink, mut stream) = socket.split();
    let (out, outgoing) = mpsc::channel(QUEUED_MESSAGES_MAX);
    let heartbeat = app.hub.heartbeat;
    let mut writer = tokio::spawn(write(sink, outgoing, heartbeat));
    let mut session = Session { app, caller, out, runs: HashMap::new(), workspace: None };
    let end = tokio::select! {
        end = session.serve(&mut stream) => end,
        // The client has disconnected, or reads nothing.
        _ = &mut writer => return,
    };
    let Session { out, runs, workspace, .. } = session;
    // Their tasks hold the queue open.
    drop((runs, workspace));
    if let Some((code, reason)) = end {
        let _ = timeout(CLOSE_TIMEOUT, out.send(Outgoing::Close(code, reason))).await;
    }
    drop(out);
    if timeout(CLOSE_TIMEOUT, &mut writer).await.is_err() {
        writer.abort();
    }
    if end == Some(TOO_LONG) {
        // The rest of the message may be unread. A connection that is closed with unread bytes is reset, and the client
        // may lose the last frame: leave it time to read the frame and to close the connection itself.
        sleep(CLOSE_TIMEOUT).await;
    }
    drop(stream);
}

/// A frame for the client.
enum Outgoing {
    Text(Arc<str>),
    Close(u16, &'static str),
}

/// Writes the queued messages as fast as the client reads, and a ping when there is none.
async fn write(mut sink: SplitSink<WebSocket, Frame>, mut outgoing: mpsc::Receiver<Outgoing>, heartbeat: Duration) {
    let mut pings = interval_at(Instant::now() + heartbeat, heartbeat);
    loop {
        let frame = tokio::select! {
            message = outgoing.recv() => match message {
                Some(Outgoing::Text(text)) => Frame::from(&*text),
                Some(Outgoing::Close(code, reason)) => Frame::Close(Some(CloseFrame { code, reason: reason.into() })),
                None => break,
            },
            _ = pings.tick() => Frame::Ping(Bytes::new()),
        };
        let is_last = matches!(frame, Frame::Close(_));
        if !matches!(timeout(WRITE_TIMEOUT, sink.send(frame)).await, Ok(Ok(()))) || is_last {
            break;
        }
    }
    let _ = timeout(CLOSE_TIMEOUT, sink.close()).await;
}

struct Session {
    app: AppState,
    caller: Caller,
    out: mpsc::Sender<Outgoing>,
    /// The followed runs, each with its task.
    runs: HashMap<RunId, Task>,
    workspace: Option<Task>,
}

/// A task that ends with its owner.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why the server closes a socket; none if the client has closed it.
type SocketEnd = Option<(u16, &'static str)>;

/// A frame above the limit of the protocol's library is an error before it is read. After any other error no frame can
/// be sent.
fn end_after(error: axum::Error) -> SocketEnd {
    let error = error.into_inner().downcast::<tungstenite::Error>().ok()?;
    matches!(*error, tungstenite::Error::Capacity(_)).then_some(TOO_LONG)
}

impl Session {
    async fn serve(&mut self, stream: &mut SplitStream<WebSocket>) -> SocketEnd {
        let hub = Arc::clone(&self.app.hub);
        let mut stopped = std::pin::pin!(hub.stopped());
        let mut key_check = interval_at(Instant::now() + KEY_CHECK_INTERVAL, KEY_CHECK_INTERVAL);
        loop {
            let received = tokio::select! {
                frame = stream.next() => match frame {
                    Some(Ok(Frame::Text(text))) => self.receive(&text).await,
                    Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => Ok(()),
                    Some(Ok(Frame::Binary(_))) => Err(Some((close_code::POLICY, "a message is binary; send texts"))),
                    Some(Err(error)) => Err(end_after(error)),
                    Some(Ok(Frame::Close(_))) | None => Err(None),
                },
                _ = key_check.tick() => match pass::holds(&self.app, &self.caller).await {
                    true => Ok(()),
                    false => Err(Some((close_code::POLICY, "the credential is no longer valid"))),
                },
                () = &mut stopped => Err(Some((close_code::STOPPING, "the server stops"))),
            };
            if let Err(end) = received {
                return end;
            }
        }
    }

    async fn receive(&mut self, text: &str) -> Result<(), SocketEnd> {
        if text.len() > REQUEST_BYTES_MAX {
            return Err(Some(TOO_LONG));
        }
        match message::read(text) {
            Ok(Command::FollowRun { run, after, form }) => self.follow_run(run, after, form).await,
            Ok(Command::LeaveRun { run }) => {
                self.runs.remove(&run);
                Ok(())
            }
            Ok(Command::FollowWorkspace) => {
                self.follow_workspace();
                Ok(())
            }
            Ok(Command::LeaveWorkspace) => {
                self.workspace = None;
                Ok(())
            }
            Err((run, problem)) => self.refuse(run.as_deref(), problem).await,
        }
    }

    async fn refuse(&self, run: Option<&str>, problem: Problem) -> Result<(), SocketEnd> {
        let message = message::refusal(run, problem);
        self.out.send(Outgoing::Text(message.into())).await.map_err(|_| None)
    }

    /// Follows a run; one that is followed already begins again.
    async fn follow_run(&mut self, run: RunId, after: Option<u64>, form: EntryForm) -> Result<(), SocketEnd> {
        self.runs.retain(|_, task| !task.0.is_finished());
        self.runs.remove(&run);
        if self.runs.len() >= RUNS_MAX {
            return Err(Some((close_code::POLICY, "a socket follows at most 64 runs")));
        }
        let slot = match self.app.hub.slots.take_slot(&self.caller) {
            Ok(slot) => slot,
            Err(problem) => return self.refuse(Some(&run.to_string()), problem).await,
        };
        let (app, workspace, out) = (self.app.clone(), self.caller.workspace, self.out.clone());
        let task = tokio::spawn(async move {
            let _slot = slot;
            let joined = async {
                let joined = JoinedRun::load(&app, workspace, run).await?;
                if let Some(after) = after {
                    joined.check(after)?;
                }
                joined.feed(&app, workspace, after, form).await
            };
            let mut feed = match joined.await {
                Ok(feed) => feed,
                Err(problem) => {
                    let message = message::refusal(Some(&run.to_string()), problem);
                    // A closed connection needs no message.
                    let _ = out.send(Outgoing::Text(message.into())).await;
                    return;
                }
            };
            while let Some(message) = feed.next().await {
                if out.send(Outgoing::Text(message::render(run, &message).into())).await.is_err() {
                    return;
                }
            }
        });
        self.runs.insert(run, Task(task));
        Ok(())
    }

    fn follow_workspace(&mut self) {
        if self.workspace.is_some() {
            return;
        }
        let mut follower = self.app.hub.workspaces.follow(&self.app.engine, self.caller.workspace);
        let out = self.out.clone();
        self.workspace = Some(Task(tokio::spawn(async move {
            while let Some(message) = follower.next().await {
                if out.send(Outgoing::Text(message)).await.is_err() {
                    return;
                }
            }
        })));
    }
}
