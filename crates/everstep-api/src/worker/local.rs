//! What is said with a worker whose session this node holds.

use std::sync::Arc;
use std::time::Duration;

use everstep_engine::{self as engine, Engine, Session};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout, timeout_at};

use super::hello;
use super::message::Message;
use super::report::{Reports, WireReport, check_number};
use super::{ANSWERED, BYTES, HELD, gone, hold_back};
use crate::body::Body;
use crate::problem::Problem;

/// How long an answer to reports may cross a poll that does not know of it.
const CROSSING: Duration = Duration::from_millis(50);

/// `POST /v1/worker/poll`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WorkerPoll")]
pub(crate) struct Poll {
    pub(super) session: String,
    /// The last message of all that were seen without a gap; 0 for none.
    seen: u64,
    /// Runs that the worker takes at once from now on.
    #[schemars(range(max = 10_000))]
    capacity: Option<usize>,
    /// How long to wait for something to be told; 10,000 if it is left out.
    #[schemars(range(max = 10_000))]
    wait_ms: Option<u64>,
}

impl Poll {
    pub(super) fn check(&self) -> Result<(), Problem> {
        check_number("seen", self.seen)?;
        if self.wait() > HELD {
            return Err(Problem::invalid(format!("waitMs: a poll is held for at most {} ms", HELD.as_millis())));
        }
        self.capacity.map_or(Ok(()), hello::check_capacity)
    }

    fn wait(&self) -> Duration {
        self.wait_ms.map_or(HELD, Duration::from_millis)
    }
}

/// `POST /v1/worker/reports`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WorkerReports")]
pub(crate) struct ReportsRequest<R> {
    session: String,
    /// The last message of all that were seen without a gap; 0 for none.
    seen: u64,
    #[schemars(length(max = 512))]
    reports: R,
}

/// What a worker has sent.
pub(super) struct Sent {
    pub(super) session: String,
    seen: u64,
    reports: Reports,
}

impl Sent {
    pub(super) fn read<const LIMIT: usize>(body: &Body<LIMIT>) -> Result<Self, Problem> {
        // Usually all reports are as they should be, and one pass reads them.
        if let Ok(ReportsRequest { session, seen, reports }) = body.json::<ReportsRequest<Vec<WireReport<'_>>>>() {
            check_number("seen", seen)?;
            return Ok(Self { session, seen, reports: Reports::of(reports)? });
        }
        let ReportsRequest { session, seen, reports } = body.json::<ReportsRequest<Vec<&RawValue>>>()?;
        check_number("seen", seen)?;
        Ok(Self { session, seen, reports: Reports::pick(reports)? })
    }
}

/// Waits until there is something to tell besides answers to reports.
pub(super) async fn poll(engine: &Engine, session: &Session, poll: &Poll) -> Result<Vec<u8>, Problem> {
    engine.heard(session);
    if let Some(capacity) = poll.capacity {
        engine.set_capacity(session, capacity);
    }
    session.seen(poll.seen);
    let carrier = engine.attach(session);
    let overdue = news(session, carrier, poll.wait()).await;
    if session.is_over() {
        return Err(gone());
    }
    // What another poll of the same worker waits for is not taken away from it.
    if !session.is_carried_by(carrier) {
        return Ok(nothing());
    }
    Ok(tell(session, overdue))
}

/// Waits for something to tell. Returns what was told before and has not come, as it seems.
async fn news(session: &Session, carrier: u64, patience: Duration) -> Vec<Arc<engine::Message>> {
    let until = Instant::now() + patience;
    let overdue = session.overdue();
    if !overdue.is_empty() {
        return overdue;
    }
    if session.backlog().unseen > 0 {
        if timeout(CROSSING.min(patience), session.turn_news(carrier)).await.is_ok() {
            return Vec::new();
        }
        let overdue = session.overdue();
        if !overdue.is_empty() {
            return overdue;
        }
    }
    // When the time is over there may be answers all the same.
    let _ = timeout_at(until, session.turn_news(carrier)).await;
    Vec::new()
}

/// Takes reports, and waits until they are in the journal.
pub(super) async fn reports(engine: &Engine, session: &Arc<Session>, sent: Sent) -> Result<Vec<u8>, Problem> {
    let Sent { seen, reports, .. } = sent;
    engine.heard(session);
    session.seen(seen);
    hold_back(engine, session).await?;
    session.refuse(reports.refused);
    engine.report(session, reports.taken);
    // What is not answered by then is answered in a later message.
    let _ = timeout(ANSWERED, session.all_answered()).await;
    if session.is_over() {
        return Err(gone());
    }
    Ok(tell(session, Vec::new()))
}

const BEGIN: &[u8] = b"{\"messages\":[";
const END: &[u8] = b"]}";

/// An answer without a message.
pub(super) fn nothing() -> Vec<u8> {
    [BEGIN, END].concat()
}

/// What was told before, and then what there is to tell. What makes the answer too long is told in the next.
fn tell(session: &Session, before: Vec<Arc<engine::Message>>) -> Vec<u8> {
    let mut body = BEGIN.to_vec();
    let mut messages = before.into_iter().chain(std::iter::from_fn(|| session.take()));
    while body.len() < BYTES
        && let Some(message) = messages.next()
    {
        if body.len() > BEGIN.len() {
            body.push(b',');
        }
        Message::of(&message).write(&mut body);
    }
    body.extend_from_slice(END);
    body
}
