//! Polls and reports of a session that belongs to this node.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::whole;
use everstep_engine::{self as engine, Engine, Session};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout, timeout_at};

use super::backpressure::wait_for_room;
use super::hello;
use super::limits::{POLL_WAIT_MAX, REPORTS_WAIT_MAX, REQUEST_BYTES_MAX};
use super::messages::NumberedMessage;
use super::report::{WireReport, check_number};
use super::reports::Reports;
use super::sessions::gone;
use crate::http::body::Body;
use crate::http::problem::Problem;

/// How long a response to reports may overlap with a poll whose `seen` does not include it yet.
const OVERLAP_MAX: Duration = Duration::from_millis(50);

/// `POST /v1/worker/poll`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WorkerPoll")]
pub(crate) struct Poll {
    pub(super) session: String,
    /// The number of the last message that was received without a gap; 0 for none.
    #[serde(deserialize_with = "whole::number")]
    seen: u64,
    /// The number of runs that the worker executes at the same time from now on.
    #[schemars(range(max = 10_000))]
    #[serde(default, deserialize_with = "whole::optional")]
    capacity: Option<usize>,
    /// The number of milliseconds to wait for a message. Default: 10,000.
    #[schemars(range(max = 10_000))]
    #[serde(default, deserialize_with = "whole::optional")]
    wait_ms: Option<u64>,
}

impl Poll {
    pub(super) fn check(&self) -> Result<(), Problem> {
        check_number("seen", self.seen)?;
        if self.wait() > POLL_WAIT_MAX {
            let max = POLL_WAIT_MAX.as_millis();
            return Err(Problem::invalid(format!("waitMs: the server holds a poll for at most {max} ms")));
        }
        self.capacity.map_or(Ok(()), hello::check_capacity)
    }

    fn wait(&self) -> Duration {
        self.wait_ms.map_or(POLL_WAIT_MAX, Duration::from_millis)
    }
}

/// `POST /v1/worker/reports`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WorkerReports")]
pub(crate) struct ReportsRequest<R> {
    session: String,
    /// The number of the last message that was received without a gap; 0 for none.
    #[serde(deserialize_with = "whole::number")]
    seen: u64,
    #[schemars(length(max = 512))]
    reports: R,
}

/// A request with reports, after the reports were checked.
pub(super) struct SentReports {
    pub(super) session: String,
    seen: u64,
    reports: Reports,
}

impl SentReports {
    pub(super) fn read<const BYTES_MAX: usize>(body: &Body<BYTES_MAX>) -> Result<Self, Problem> {
        // Usually every report is well-formed, and one pass decodes all of them.
        if let Ok(ReportsRequest { session, seen, reports }) = body.json::<ReportsRequest<Vec<WireReport<'_>>>>() {
            check_number("seen", seen)?;
            return Ok(Self { session, seen, reports: Reports::check_all(reports)? });
        }
        let ReportsRequest { session, seen, reports } = body.json::<ReportsRequest<Vec<&RawValue>>>()?;
        check_number("seen", seen)?;
        Ok(Self { session, seen, reports: Reports::decode_each(reports)? })
    }
}

/// Waits until there is a message with more than replies to reports.
pub(super) async fn poll(engine: &Engine, session: &Session, poll: &Poll) -> Result<Vec<u8>, Problem> {
    engine.heard(session);
    if let Some(capacity) = poll.capacity {
        engine.set_capacity(session, capacity);
    }
    session.seen(poll.seen);
    let carrier = engine.attach(session);
    let overdue = wait_for_news(session, carrier, poll.wait()).await;
    if session.is_over() {
        return Err(gone());
    }
    // A later poll of the same worker has replaced this one: the messages are left for it.
    if !session.is_carried_by(carrier) {
        return Ok(no_messages());
    }
    Ok(encode_messages(session, overdue))
}

/// Waits for a message. Returns earlier messages that the worker seems not to have received.
async fn wait_for_news(session: &Session, carrier: u64, wait: Duration) -> Vec<Arc<engine::WorkerBatch>> {
    let until = Instant::now() + wait;
    let overdue = session.overdue();
    if !overdue.is_empty() {
        return overdue;
    }
    if session.backlog().unseen > 0 {
        if timeout(OVERLAP_MAX.min(wait), session.turn_news(carrier)).await.is_ok() {
            return Vec::new();
        }
        let overdue = session.overdue();
        if !overdue.is_empty() {
            return overdue;
        }
    }
    // After the timeout the response still contains replies to reports, if there are any.
    let _ = timeout_at(until, session.turn_news(carrier)).await;
    Vec::new()
}

/// Accepts reports, and waits until they are in the journal.
pub(super) async fn reports(engine: &Engine, session: &Arc<Session>, sent: SentReports) -> Result<Vec<u8>, Problem> {
    let SentReports { seen, reports, .. } = sent;
    engine.heard(session);
    session.seen(seen);
    wait_for_room(engine, session).await?;
    session.refuse(reports.refused);
    engine.report(session, reports.accepted);
    // Reports without a reply after this time are answered in a later message.
    let _ = timeout(REPORTS_WAIT_MAX, session.all_answered()).await;
    if session.is_over() {
        return Err(gone());
    }
    Ok(encode_messages(session, Vec::new()))
}

const BEGIN: &[u8] = b"{\"messages\":[";
const END: &[u8] = b"]}";

/// A response without messages.
pub(super) fn no_messages() -> Vec<u8> {
    [BEGIN, END].concat()
}

/// A response with earlier messages and then the new ones. Messages beyond the limit of bytes remain for the next.
fn encode_messages(session: &Session, earlier: Vec<Arc<engine::WorkerBatch>>) -> Vec<u8> {
    let mut body = BEGIN.to_vec();
    let mut messages = earlier.into_iter().chain(std::iter::from_fn(|| session.next_batch()));
    while body.len() < REQUEST_BYTES_MAX
        && let Some(message) = messages.next()
    {
        if body.len() > BEGIN.len() {
            body.push(b',');
        }
        NumberedMessage::new(&message).write(&mut body);
    }
    body.extend_from_slice(END);
    body
}
