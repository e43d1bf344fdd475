//! Speaks with workers over a WebSocket: one JSON object per text frame.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message as Frame, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use everstep_engine::{self as engine, Session};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at, timeout};

use super::hello::{self, Hello, Welcome};
use super::message::{self, Message};
use super::report::{Reports, WireReport};
use super::{BYTES, away, hold_back};
use crate::audit;
use crate::auth::{self, Caller, Permission};
use crate::deadline::within_deadline;
use crate::live::LOOKED_AT;
use crate::problem::Problem;
use crate::server::Served;

/// How long a worker may take to say who it is.
const INTRODUCTION: Duration = Duration::from_secs(10);
/// A worker that takes nothing for this long is not waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the last words may take.
const FAREWELL: Duration = Duration::from_secs(1);
/// Words that wait to be said beside what the session gathers.
const WAITING: usize = 4;

/// Why a socket is closed.
mod why {
    /// The server stops.
    pub(super) const AWAY: u16 = 1001;
    /// What was said cannot be understood.
    pub(super) const PROBLEM: u16 = 4400;
    /// The key is not good any more.
    pub(super) const KEY: u16 = 4401;
    /// Another socket carries the session.
    pub(super) const REPLACED: u16 = 4409;
    /// The session has ended.
    pub(super) const GONE: u16 = 4410;
    /// The worker has said goodbye.
    pub(super) const BYE: u16 = 1000;
}

/// What a worker says first.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct First {
    hello: Option<Hello>,
    resume: Option<Resume>,
}

/// A worker whose socket was lost.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Resume {
    session: String,
    seen: u64,
    capacity: Option<usize>,
}

/// What a worker says then.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Said<R> {
    seen: Option<u64>,
    reports: Option<R>,
    capacity: Option<usize>,
    ping: Option<bool>,
    bye: Option<bool>,
}

/// What is said beside what the session gathers.
enum Word {
    Text(Cow<'static, str>),
    Close(u16, &'static str),
}

/// Why nothing more is heard.
enum End {
    /// Something is to be said last.
    Words(Vec<Word>),
    /// The other side has gone.
    Silence,
}

pub(crate) async fn open(
    State(served): State<Served>,
    caller: Caller,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = upgrade.map_err(|error| {
        let hint = "connect with a WebSocket, or use POST /v1/worker/sessions";
        Problem::new(StatusCode::UPGRADE_REQUIRED, "UPGRADE_REQUIRED", format!("this is no WebSocket: {error}"))
            .hint(hint)
    })?;
    let upgrade = upgrade.max_message_size(BYTES).max_frame_size(BYTES);
    Ok(upgrade.on_upgrade(|socket| run(served, caller, socket)).into_response())
}

async fn run(served: Served, caller: Caller, socket: WebSocket) {
    let (mut sink, mut stream) = socket.split();
    let session = match introduce(&served, &caller, &mut stream).await {
        Ok(session) => session,
        Err(End::Words(words)) => return say_last(&mut sink, words).await,
        Err(End::Silence) => return,
    };
    let carrier = served.engine.attach(&session);
    let (out, words) = mpsc::channel(WAITING);
    let welcome = message::frame("welcome", &Welcome::to(&served.engine, &session));
    let writer = Writer { sink, session: Arc::clone(&session), carrier };
    let mut writer = tokio::spawn(writer.run(welcome, words));
    let mut reader = Reader { served, caller, session, carrier, out };
    let has_spoken = tokio::select! {
        end = reader.run(&mut stream) => {
            if let End::Words(words) = end {
                for word in words {
                    // A writer that has gone has nobody to tell.
                    let _ = reader.out.send(word).await;
                }
            }
            false
        }
        // It has said why.
        _ = &mut writer => true,
    };
    let Reader { served, session, out, .. } = reader;
    session.detach(carrier, served.engine.world().clock.monotonic());
    drop(out);
    if !has_spoken && timeout(FAREWELL, &mut writer).await.is_err() {
        writer.abort();
    }
}

/// Hears who comes, and opens their session or finds it.
async fn introduce(served: &Served, caller: &Caller, stream: &mut SplitStream<WebSocket>) -> Result<Arc<Session>, End> {
    let silent = Problem::invalid(format!("nothing was said within {} s", INTRODUCTION.as_secs()));
    let greeting = in_time(greeting(stream), silent).await?;
    // A worker that hears nothing for so long comes again, and a session that comes later is nobody's.
    let slow = Problem::unavailable("the session could not be opened in time");
    in_time(enter(served, caller, &greeting), slow).await
}

async fn in_time<T>(what: impl Future<Output = Result<T, End>>, problem: Problem) -> Result<T, End> {
    timeout(INTRODUCTION, what).await.unwrap_or_else(|_| Err(End::of(&problem)))
}

/// The first that is said.
async fn greeting(stream: &mut SplitStream<WebSocket>) -> Result<Utf8Bytes, End> {
    loop {
        match stream.next().await {
            Some(Ok(Frame::Text(text))) => return Ok(text),
            Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => {}
            Some(Ok(Frame::Binary(_))) => return Err(End::of(&binary())),
            Some(Ok(Frame::Close(_)) | Err(_)) | None => return Err(End::Silence),
        }
    }
}

/// Opens a session or finds it.
async fn enter(served: &Served, caller: &Caller, greeting: &str) -> Result<Arc<Session>, End> {
    let first: First = read(greeting).map_err(|problem| End::of(&problem))?;
    match first {
        First { hello: Some(hello), resume: None } => {
            let hello = hello.check(caller.workspace).map_err(|problem| End::of(&problem))?;
            let opened = within_deadline(served.engine.open_session(hello)).await;
            let session = opened.map_err(|problem| End::of(&problem))?;
            note(served, caller, "open", &session).await;
            Ok(session)
        }
        First { hello: None, resume: Some(Resume { session, seen, capacity }) } => {
            let found = away::find(&served.engine, caller.workspace, &session);
            let session = found.map_err(|problem| End::gone(&problem))?;
            served.engine.heard(&session);
            if let Some(capacity) = capacity {
                hello::check_capacity(capacity).map_err(|problem| End::of(&problem))?;
                served.engine.set_capacity(&session, capacity);
            }
            session.seen(seen);
            Ok(session)
        }
        First { .. } => {
            let detail = "the first frame is {\"hello\": …} or {\"resume\": …}";
            Err(End::of(&Problem::invalid(detail)))
        }
    }
}

struct Reader {
    served: Served,
    caller: Caller,
    session: Arc<Session>,
    carrier: u64,
    out: mpsc::Sender<Word>,
}

impl Reader {
    /// Hears a worker until nothing more is to be heard.
    async fn run(&mut self, stream: &mut SplitStream<WebSocket>) -> End {
        let live = Arc::clone(&self.served.live);
        let mut stopped = std::pin::pin!(live.stopped());
        let mut look = interval_at(Instant::now() + LOOKED_AT, LOOKED_AT);
        loop {
            let heard = tokio::select! {
                frame = stream.next() => self.hear(frame).await,
                _ = look.tick() => self.look().await,
                () = &mut stopped => Err(End::Words(vec![Word::Close(why::AWAY, "the server stops")])),
            };
            if let Err(end) = heard {
                return end;
            }
        }
    }

    async fn hear(&mut self, frame: Option<Result<Frame, axum::Error>>) -> Result<(), End> {
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(_)) | None => return Err(End::Silence),
        };
        if !self.session.is_carried_by(self.carrier) {
            // Whoever writes knows why.
            return Err(End::Silence);
        }
        self.served.engine.heard(&self.session);
        match frame {
            Frame::Text(text) => self.take(&text).await,
            Frame::Ping(_) | Frame::Pong(_) => Ok(()),
            Frame::Binary(_) => Err(End::of(&binary())),
            Frame::Close(_) => Err(End::Silence),
        }
    }

    async fn take(&mut self, text: &str) -> Result<(), End> {
        // Usually all reports are as they should be, and one pass reads them.
        let (said, reports) = match read::<Said<Vec<WireReport<'_>>>>(text) {
            Ok(mut said) => {
                let reports = said.reports.take().map(Reports::of);
                (said.without::<()>(), reports)
            }
            Err(_) => {
                let mut said = read::<Said<Vec<&RawValue>>>(text).map_err(|problem| End::of(&problem))?;
                let reports = said.reports.take().map(Reports::pick);
                (said.without::<()>(), reports)
            }
        };
        let reports = reports.transpose().map_err(|problem| End::of(&problem))?;
        let engine = &self.served.engine;
        if let Some(seen) = said.seen {
            self.session.seen(seen);
        }
        if let Some(capacity) = said.capacity {
            hello::check_capacity(capacity).map_err(|problem| End::of(&problem))?;
            engine.set_capacity(&self.session, capacity);
        }
        if let Some(reports) = reports {
            hold_back(engine, &self.session).await.map_err(|problem| End::of(&problem))?;
            self.session.refuse(reports.refused);
            engine.report(&self.session, reports.taken);
        }
        if said.ping == Some(true) {
            // A worker that takes nothing is not waited for.
            let _ = timeout(PATIENCE, self.out.send(Word::Text(Cow::Borrowed("{\"pong\":true}")))).await;
        }
        if said.bye == Some(true) {
            engine.close_session(&self.session);
            note(&self.served, &self.caller, "close", &self.session).await;
            return Err(End::Words(vec![Word::Close(why::BYE, "goodbye")]));
        }
        Ok(())
    }

    /// Looks whether the key is as good as it was. A database that does not answer takes no right away.
    async fn look(&self) -> Result<(), End> {
        let now = self.served.engine.world().clock.now();
        match self.served.keys.find_again(&self.caller, now).await {
            Ok(Some(caller)) if caller.may(Permission::Serve) => Ok(()),
            Err(_) => Ok(()),
            Ok(Some(_)) => Err(End::key(&auth::lacks_permission(Permission::Serve))),
            Ok(None) => Err(End::key(&auth::reject("the key has expired or was revoked"))),
        }
    }
}

impl<R> Said<R> {
    /// What is said beside reports.
    fn without<S>(self) -> Said<S> {
        let Self { seen, capacity, ping, bye, .. } = self;
        Said { seen, reports: None, capacity, ping, bye }
    }
}

struct Writer {
    sink: SplitSink<WebSocket, Frame>,
    session: Arc<Session>,
    carrier: u64,
}

impl Writer {
    /// Says what there is to say until nothing more will be.
    async fn run(mut self, welcome: Cow<'static, str>, mut words: mpsc::Receiver<Word>) {
        // What fails here fails because the other side has gone.
        let _ = self.speak(welcome, &mut words).await;
        let _ = timeout(FAREWELL, self.sink.close()).await;
    }

    async fn speak(&mut self, welcome: Cow<'static, str>, words: &mut mpsc::Receiver<Word>) -> Result<(), Gone> {
        self.say(text(welcome)).await?;
        // What was said on a socket before this one, and may not have come.
        for message in self.session.unseen() {
            self.tell(&message).await?;
        }
        self.flush().await?;
        loop {
            tokio::select! {
                biased;
                word = words.recv() => match word {
                    Some(Word::Text(words)) => self.say(text(words)).await?,
                    Some(Word::Close(code, reason)) => return self.say(close(code, reason)).await,
                    None => return Ok(()),
                },
                () = self.session.any_news(self.carrier) => {
                    if self.session.is_over() {
                        return self.say(close(why::GONE, "the session has ended")).await;
                    }
                    if !self.session.is_carried_by(self.carrier) {
                        return self.say(close(why::REPLACED, "another connection carries the session")).await;
                    }
                    while let Some(message) = self.session.take_as(self.carrier) {
                        self.tell(&message).await?;
                    }
                    self.flush().await?;
                }
            }
        }
    }

    async fn tell(&mut self, message: &engine::Message) -> Result<(), Gone> {
        let frame = Frame::Text(Message::of(message).json().into());
        gone_after(self.sink.feed(frame)).await
    }

    async fn say(&mut self, frame: Frame) -> Result<(), Gone> {
        gone_after(self.sink.send(frame)).await
    }

    async fn flush(&mut self) -> Result<(), Gone> {
        gone_after(self.sink.flush()).await
    }
}

/// Nobody takes what is said.
struct Gone;

async fn gone_after(said: impl Future<Output = Result<(), axum::Error>>) -> Result<(), Gone> {
    match timeout(PATIENCE, said).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(Gone),
    }
}

impl End {
    /// What was said cannot be used.
    fn of(problem: &Problem) -> Self {
        let words = message::frame("problem", &problem.document());
        Self::Words(vec![Word::Text(words), Word::Close(why::PROBLEM, "see the frame before")])
    }

    fn gone(problem: &Problem) -> Self {
        let words = message::frame("gone", &problem.document());
        Self::Words(vec![Word::Text(words), Word::Close(why::GONE, "the session has ended")])
    }

    fn key(problem: &Problem) -> Self {
        let words = message::frame("problem", &problem.document());
        Self::Words(vec![Word::Text(words), Word::Close(why::KEY, "the key is not good any more")])
    }
}

async fn say_last(sink: &mut SplitSink<WebSocket, Frame>, words: Vec<Word>) {
    for word in words {
        let frame = match word {
            Word::Text(words) => text(words),
            Word::Close(code, reason) => close(code, reason),
        };
        if timeout(FAREWELL, sink.send(frame)).await.is_err() {
            return;
        }
    }
    let _ = timeout(FAREWELL, sink.close()).await;
}

fn text(words: Cow<'static, str>) -> Frame {
    Frame::Text(words.into_owned().into())
}

fn close(code: u16, reason: &'static str) -> Frame {
    Frame::Close(Some(CloseFrame { code, reason: reason.into() }))
}

fn binary() -> Problem {
    Problem::invalid("a frame is binary; frames are text")
}

/// Reads an object: a list of its values in order is none.
fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Problem> {
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Problem::invalid("a frame is no object"));
    }
    serde_json::from_str(text).map_err(|error| Problem::invalid(format!("a frame cannot be read: {error}")))
}

/// Writes down that a session was opened or closed: the guard sees only that a socket was.
async fn note(served: &Served, caller: &Caller, what: &'static str, session: &Session) {
    let details = serde_json::json!({"worker": session.worker, "session": session.id.shown()});
    audit::write_action(served, caller, &format!("worker socket {what}"), "/v1/worker/socket", details).await;
}
