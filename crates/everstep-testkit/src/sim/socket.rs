//! A socket between a worker and a server: messages arrive in their order, late, or not at all after it has broken.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use everstep_engine::{Engine, SessionId, WorkerBatch, WorkerReport};
use futures_util::future::{self, Either};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::executor::{Executor, OUTSIDE};
use super::worker::{Link, Worker};

/// A message of a worker.
struct Said {
    seen: u64,
    batch: Vec<WorkerReport>,
    is_ping: bool,
}

/// A message of a server.
enum ServerMessage {
    Batch(Arc<WorkerBatch>),
    Pong,
    Gone,
}

/// A worker's end of a socket.
struct Socket {
    up: UnboundedSender<Said>,
    down: UnboundedReceiver<ServerMessage>,
}

/// Why a socket is no longer used.
#[derive(PartialEq, Eq)]
enum End {
    Broken,
    Gone,
}

impl Worker {
    /// Keeps a session over sockets, one after the other, while it exists.
    pub(super) async fn stay_by_socket(&self, link: &Link) {
        let mut failures = 0;
        while failures < 4 {
            let end = match self.connect(link) {
                Some(socket) => self.talk(link.session, socket).await,
                None => End::Broken,
            };
            if end == End::Gone {
                return;
            }
            self.send_all_again();
            failures += 1;
            self.pause(1, 400).await;
        }
    }

    fn connect(&self, link: &Link) -> Option<Socket> {
        let ((up, up_end), (to_server, hears)) = (unbounded_channel(), unbounded_channel());
        let ((tells, down_end), (to_worker, down)) = (unbounded_channel(), unbounded_channel());
        let (session, seen) = (link.session, self.seen());
        if !link.server.accept(|engine| serve(engine, session, seen, tells, hears)) {
            return None;
        }
        let wire = Wire { executor: self.executor.clone(), broken: Arc::default(), is_calm: link.server.is_calm() };
        self.executor.spawn(OUTSIDE, wire.clone().carry(up_end, to_server));
        self.executor.spawn(OUTSIDE, wire.carry(down_end, to_worker));
        Some(Socket { up, down })
    }

    /// Sends and receives messages, until the socket breaks or is silent for too long.
    async fn talk(&self, session: SessionId, mut socket: Socket) -> End {
        let mut pinged: Option<Timestamp> = None;
        let mut heard = self.executor.now();
        let mut last_ping = heard;
        loop {
            let batch = self.next_batch();
            if !batch.is_empty() {
                let _ = socket.up.send(Said { seen: self.seen(), batch, is_ping: false });
                continue;
            }
            let message = {
                let down = std::pin::pin!(socket.down.recv());
                let news = std::pin::pin!(self.to_send.notified());
                let silence = std::pin::pin!(self.executor.sleep(self.lease / 4));
                match future::select(down, future::select(news, silence)).await {
                    Either::Left((message, _)) => Some(message),
                    Either::Right(_) => None,
                }
            };
            let now = self.executor.now();
            match message {
                Some(None) => return End::Broken,
                Some(Some(ServerMessage::Gone)) => return End::Gone,
                Some(Some(ServerMessage::Batch(batch))) => {
                    heard = now;
                    // Only messages before the last answered ping are certain to have arrived.
                    self.take_in(session, Timestamp::EPOCH, vec![batch]);
                }
                Some(Some(ServerMessage::Pong)) => {
                    heard = now;
                    if let Some(pinged) = pinged.take() {
                        self.take_in(session, pinged, Vec::new());
                    }
                }
                None => {}
            }
            if now.since(heard) > self.lease {
                return End::Broken;
            }
            if pinged.is_none() && now.since(last_ping) >= self.lease / 4 {
                (pinged, last_ping) = (Some(now), now);
                let _ = socket.up.send(Said { seen: self.seen(), batch: Vec::new(), is_ping: true });
            }
        }
    }
}

/// One direction of a socket.
#[derive(Clone)]
struct Wire {
    executor: Executor,
    broken: Arc<Notify>,
    is_calm: bool,
}

impl Wire {
    async fn carry<T>(self, mut from: UnboundedReceiver<T>, to: UnboundedSender<T>) {
        loop {
            let one = {
                let one = std::pin::pin!(from.recv());
                let broken = std::pin::pin!(self.broken.notified());
                match future::select(one, broken).await {
                    Either::Left((one, _)) => one,
                    Either::Right(_) => None,
                }
            };
            let Some(one) = one else { return };
            let luck = self.executor.with_random(|random| random.below(1_000));
            match luck {
                _ if self.is_calm => {}
                0..10 => {
                    self.executor.note(|| "a socket breaks".to_owned());
                    return self.broken.notify_waiters();
                }
                // Only one end notices.
                10..15 => return,
                15..150 => self.executor.sleep(Duration::from_millis(luck as u64)).await,
                _ => {}
            }
            if to.send(one).is_err() {
                return self.broken.notify_waiters();
            }
        }
    }
}

/// The server's side of a socket.
async fn serve(
    engine: Engine,
    id: SessionId,
    seen: u64,
    tells: UnboundedSender<ServerMessage>,
    mut hears: UnboundedReceiver<Said>,
) {
    let Some(session) = engine.session(WorkspaceId::DEFAULT, id) else {
        let _ = tells.send(ServerMessage::Gone);
        return;
    };
    engine.heard(&session);
    session.seen(seen);
    let carrier = engine.attach(&session);
    for batch in session.unseen() {
        let _ = tells.send(ServerMessage::Batch(batch));
    }
    loop {
        let heard = {
            let news = std::pin::pin!(session.any_news(carrier));
            let said = std::pin::pin!(hears.recv());
            match future::select(news, said).await {
                Either::Left(_) => None,
                Either::Right((said, _)) => Some(said),
            }
        };
        if session.is_over() {
            let _ = tells.send(ServerMessage::Gone);
            return;
        }
        if !session.is_carried_by(carrier) {
            return;
        }
        match heard {
            None => {
                while let Some(batch) = session.next_batch() {
                    let _ = tells.send(ServerMessage::Batch(batch));
                }
            }
            Some(None) => return session.detach(carrier, engine.world().clock.monotonic()),
            Some(Some(Said { seen, batch, is_ping })) => {
                engine.heard(&session);
                session.seen(seen);
                if !batch.is_empty() {
                    engine.report(&session, batch);
                }
                if is_ping {
                    let _ = tells.send(ServerMessage::Pong);
                }
            }
        }
    }
}
