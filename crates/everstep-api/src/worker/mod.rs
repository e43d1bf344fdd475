//! `/v1/worker`: what is said with workers, users' processes that run workflows written as code.
//!
//! * `hello` is what a worker says of itself; `report` what it says of its runs; `message` what it is told.
//! * `exchange` carries both over HTTP, `socket` over a WebSocket; `held` is what is done with a session of this node,
//!   `away` passes on what is said to one of another.
//! * `list` shows who serves what.
//!
//! Payloads stay the text that they came as: nothing here looks inside them.

pub(crate) mod away;
mod exchange;
mod held;
mod hello;
pub(crate) mod list;
mod message;
mod report;
mod retry;
mod routes;
mod socket;
mod words;

pub(crate) use routes::add;

use std::borrow::Cow;
use std::time::Duration;

use axum::http::StatusCode;
use everstep_engine::{Backlog, Engine, Session, SessionId};

use crate::problem::Problem;

/// Bytes of what a worker sends at once.
const BYTES: usize = 4 * 1024 * 1024;
/// Reports that a worker sends at once.
const REPORTS: usize = 512;
/// How long a poll is held.
const HELD: Duration = Duration::from_secs(10);
/// How long reports are waited for that are not in the journal yet; whoever sent them asks again.
const ANSWERED: Duration = Duration::from_secs(30);

/// Reports of a session that may be on their way to the journal at once; whoever sends more waits.
const UNANSWERED: usize = 8 * REPORTS;
/// Messages that a session keeps until the worker says that it has seen them.
const UNSEEN: usize = 16_384;
/// Letters that may wait for the worker to see something.
const UNSENT: usize = 8 * UNSEEN;

/// Lets a session have no more under way than is good for others.
async fn hold_back(engine: &Engine, session: &Session) -> Result<(), Problem> {
    let Backlog { unanswered, unseen, unsent } = session.backlog();
    if unseen > UNSEEN || unsent > UNSENT {
        return Err(Problem::invalid(format!("{unseen} messages were sent, and none of them is said to be seen"))
            .hint("send `seen`, the last message of all that came without a gap"));
    }
    if unanswered > UNANSWERED {
        // What is not answered by then is waited for again, with the next message. Meanwhile nobody hears the worker:
        // its lease must not run out.
        let patience = ANSWERED.min(engine.worker_lease() / 3);
        let _ = tokio::time::timeout(patience, session.all_answered()).await;
    }
    Ok(())
}

/// The paths of what workers say all the time. It is counted against no limit of requests: what a worker may have
/// under way is bounded by its session.
pub(crate) fn is_exchange(path: &str) -> bool {
    [routes::POLL, routes::REPORTS].contains(&path)
}

/// A path as the audit may show it: without what only a worker may know.
pub(crate) fn audited(path: &str) -> Cow<'_, str> {
    match path.strip_prefix(routes::SESSIONS).and_then(|rest| rest.strip_prefix('/')) {
        None => Cow::Borrowed(path),
        Some(id) => {
            let shown = id.parse::<SessionId>().map(|id| id.shown()).unwrap_or_default();
            Cow::Owned(format!("{}/{shown}", routes::SESSIONS))
        }
    }
}

/// The answer to a session that is not there.
fn gone() -> Problem {
    let detail = "the session is unknown here, or has ended";
    let hint = "open another with POST /v1/worker/sessions, name in `holds` the runs that go on, and send again what \
                was not answered";
    Problem::new(StatusCode::GONE, "SESSION_GONE", detail).hint(hint)
}
