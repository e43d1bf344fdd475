//! The connection between a worker and a server: requests, replies and their faults.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::WorkspaceId;
use everstep_engine::{Engine, SessionId, WorkerBatch, WorkerReport};
use futures_util::future::{self, Either};
use tokio::sync::oneshot;

use super::executor::OUTSIDE;
use super::server::Server;
use super::worker::{Link, Worker};

/// The time for which a server holds a poll without a message.
const POLL_WAIT: Duration = Duration::from_secs(4);
/// The time for which a worker waits for a server's reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(6);

/// The reply of a server.
enum Answer {
    Messages(Vec<Arc<WorkerBatch>>),
    Gone,
}

/// The fate of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Fine,
    LostOnTheWay,
    AnswerLost,
    Doubled,
}

impl Worker {
    /// Connects to some server and stays connected while it runs; repeatedly.
    pub(super) async fn live(self) {
        let sender = self.clone();
        self.executor.spawn(self.process, sender.send());
        loop {
            let Some(link) = self.open().await else {
                self.pause(50, 500).await;
                continue;
            };
            if link.is_socket {
                self.stay_by_socket(&link).await;
            }
            let mut failures = if link.is_socket { 3 } else { 0 };
            while failures < 3 {
                let asked = self.executor.now();
                let seen = self.seen();
                match self.request(&link.server, move |engine| poll(engine, link.session, seen)).await {
                    Some(Answer::Messages(messages)) => {
                        failures = 0;
                        self.take_in(link.session, asked, messages);
                    }
                    Some(Answer::Gone) => break,
                    None => {
                        failures += 1;
                        self.pause(10, 300).await;
                    }
                }
            }
            self.unlink(link.session);
        }
    }

    async fn open(&self) -> Option<Link> {
        let server = self.servers[self.executor.with_random(|random| random.below(self.servers.len()))].clone();
        let (hello, asked) = (self.hello(), self.executor.now());
        let opened = self.request(&server, move |engine| {
            let hello = hello.clone();
            async move { engine.open_session(hello).await.map(|session| session.id) }
        });
        match opened.await? {
            Ok(session) => {
                self.executor.note(|| format!("{} is linked to server {}", self.name, server.index));
                let link = Link { server, session, is_socket: self.executor.chance(50) };
                self.linked(link.clone(), asked);
                Some(link)
            }
            Err(error) => {
                self.executor.note(|| format!("{} is rejected: {error}", self.name));
                None
            }
        }
    }

    /// Sends the reports, one batch at a time.
    async fn send(self) {
        loop {
            let wait = std::pin::pin!(self.executor.sleep(Duration::from_millis(500)));
            let news = std::pin::pin!(self.to_send.notified());
            future::select(wait, news).await;
            while let Some(link) = self.link().filter(|link| !link.is_socket) {
                let batch = self.next_batch();
                if batch.is_empty() {
                    break;
                }
                let (asked, seen) = (self.executor.now(), self.seen());
                let sent = batch.clone();
                let session = link.session;
                let work = move |engine| results(engine, session, seen, sent.clone());
                match self.request(&link.server, work).await {
                    Some(Answer::Messages(messages)) => self.take_in(session, asked, messages),
                    Some(Answer::Gone) => {
                        self.not_answered(&batch);
                        self.unlink(session);
                        self.pause(10, 200).await;
                    }
                    None => {
                        self.not_answered(&batch);
                        self.pause(10, 300).await;
                    }
                }
            }
        }
    }

    pub(super) async fn pause(&self, from: u64, to: u64) {
        let millis = self.executor.with_random(|random| random.between(from, to));
        self.executor.sleep(Duration::from_millis(millis)).await;
    }

    fn millis(&self, percent: u64, most: u64) -> Duration {
        if !self.executor.chance(percent) {
            return Duration::ZERO;
        }
        Duration::from_millis(self.executor.with_random(|random| random.between(1, most)))
    }

    /// Sends a request to a server. `None` if no reply arrived.
    async fn request<T, F>(&self, server: &Server, work: impl Fn(Engine) -> F + Send + 'static) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let is_calm = server.is_calm();
        let fate = match self.executor.with_random(|random| random.below(100)) {
            _ if is_calm => Fate::Fine,
            0..3 => Fate::LostOnTheWay,
            3..6 => Fate::AnswerLost,
            6..9 => Fate::Doubled,
            _ => Fate::Fine,
        };
        let (there, back, again) = (self.millis(15, 400), self.millis(15, 400), self.millis(50, 2_000));
        let (answer, answered) = oneshot::channel();
        if fate != Fate::LostOnTheWay {
            let (executor, server) = (self.executor.clone(), server.clone());
            // It arrives although its sender may have ended by then.
            self.executor.spawn(OUTSIDE, async move {
                executor.sleep(there).await;
                let (clock, sleeper) = (executor.clone(), executor.clone());
                server.accept(|engine| {
                    let work = work(engine);
                    async move {
                        let result = work.await;
                        sleeper.sleep(back).await;
                        if fate != Fate::AnswerLost {
                            let _ = answer.send(result);
                        }
                    }
                });
                if fate == Fate::Doubled {
                    clock.sleep(again).await;
                    server.accept(|engine| {
                        let work = work(engine);
                        async move { drop(work.await) }
                    });
                }
            });
        } else {
            drop(answer);
            self.executor.sleep(there).await;
        }
        let patience = std::pin::pin!(self.executor.sleep(REPLY_TIMEOUT));
        match future::select(answered, patience).await {
            Either::Left((answer, _)) => answer.ok(),
            Either::Right(_) => None,
        }
    }
}

/// The server's side of a poll.
async fn poll(engine: Engine, id: SessionId, seen: u64) -> Answer {
    let Some(session) = engine.session(WorkspaceId::DEFAULT, id) else { return Answer::Gone };
    engine.heard(&session);
    session.seen(seen);
    let carrier = engine.attach(&session);
    let mut messages = session.unseen();
    if messages.is_empty() {
        let clock = Arc::clone(&engine.world().clock);
        let news = std::pin::pin!(session.turn_news(carrier));
        future::select(news, clock.sleep(POLL_WAIT)).await;
    }
    if session.is_over() {
        return Answer::Gone;
    }
    // A message that another poll of the same worker waits for is not taken from it.
    if session.is_carried_by(carrier) {
        messages.extend(session.next_batch());
    }
    Answer::Messages(messages)
}

/// The server's side of reports.
async fn results(engine: Engine, id: SessionId, seen: u64, batch: Vec<WorkerReport>) -> Answer {
    let Some(session) = engine.session(WorkspaceId::DEFAULT, id) else { return Answer::Gone };
    engine.heard(&session);
    session.seen(seen);
    engine.report(&session, batch);
    // A report without a reply by then gets its reply in a later message.
    let clock = Arc::clone(&engine.world().clock);
    let answered = std::pin::pin!(session.all_answered());
    future::select(answered, clock.sleep(POLL_WAIT)).await;
    if session.is_over() { Answer::Gone } else { Answer::Messages(session.next_batch().into_iter().collect()) }
}
