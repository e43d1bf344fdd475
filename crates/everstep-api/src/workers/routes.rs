//! The routes of workers.

use std::borrow::Cow;

use axum::http::Method;
use everstep_engine::SessionId;
use serde_json::json;

use super::hello::{Hello, Welcome};
use super::list::{self, Workers};
use super::local::{Poll, ReportsRequest};
use super::messages::Messages;
use super::reports::AnyReport;
use super::{http, websocket};
use crate::auth::Permission::{Read, Serve};
use crate::http::openapi::{Doc, Parameter, doc};
use crate::routes::Table;

const SESSIONS: &str = "/v1/worker/sessions";
const POLL: &str = "/v1/worker/poll";
const REPORTS: &str = "/v1/worker/reports";

/// Whether requests to this path do not count against the rate limit of an API key: the session bounds the number of
/// polls and reports in progress.
pub(crate) fn is_uncounted(path: &str) -> bool {
    [POLL, REPORTS].contains(&path)
}

/// A path for the audit and the log: the id of a session is a credential, so it is shortened.
pub(crate) fn redact(path: &str) -> Cow<'_, str> {
    match path.strip_prefix(SESSIONS).and_then(|rest| rest.strip_prefix('/')) {
        None => Cow::Borrowed(path),
        Some(id) => {
            let shown = id.parse::<SessionId>().map(|id| id.shown()).unwrap_or_default();
            Cow::Owned(format!("{SESSIONS}/{shown}"))
        }
    }
}

pub(crate) fn add(table: Table) -> Table {
    table
        .path_parameter(
            "sessions",
            Parameter::pattern("id", "^[0-9a-f]{32}\\.[0-9a-f]{32}$", "The session's id, from the welcome."),
        )
        .guarded(
            Serve,
            Method::POST,
            SESSIONS,
            doc("workers", "Open a worker session")
                .about(
                    "A worker names the workflows that it serves, and receives a session. A request with the id of \
                     the session and an API key of the workspace counts as a request of the worker. If the server \
                     receives no request for `leaseSeconds`, the session ends, and other workers receive its runs.",
                )
                .takes::<Hello>()
                .example(json!({
                    "protocol": 1,
                    "worker": "host-1:4711",
                    "sdk": "typescript/0.1.0",
                    "capacity": 100,
                    "workflows": [{"name": "onboard-user", "version": 1}],
                    "holds": [],
                }))
                .answers::<Welcome>(201)
                .refuses(409, "`WORKFLOW_STYLE_CONFLICT`: a workflow with this name exists and is not code.")
                .refuses(
                    409,
                    "`QUOTA_REACHED`: the worker names more than 1,000 workflows, or the workspace would \
                     have more than 10,000 workflows or 10,000 subscriptions.",
                ),
            http::open,
        )
        .guarded(
            Serve,
            Method::DELETE,
            "/v1/worker/sessions/{id}",
            session_doc("Close a worker session")
                .about("Closes the session of a worker; other workers receive its runs immediately.")
                .answers_nothing(204),
            http::close,
        )
        .guarded(
            Serve,
            Method::POST,
            POLL,
            session_doc("Poll for worker messages")
                .about(
                    "The server delays the response until it has a message that contains more than replies to \
                     reports, for at most 10 s. Messages that `seen` does not include are sent again. A worker has one \
                     poll in progress; a second one ends the first. Polls and reports do not count against the rate \
                     limit.",
                )
                .takes::<Poll>()
                .example(json!({"session": "…", "seen": 0, "capacity": 100, "waitMs": 10_000}))
                .answers::<Messages>(200),
            http::poll,
        )
        .guarded(
            Serve,
            Method::POST,
            REPORTS,
            session_doc("Send worker reports")
                .about(
                    "At most 512 reports and 4 MiB, about any runs. The server responds when all are in the journal. \
                     Each report is acknowledged, rejected, or must be sent again later. Sending a report again is \
                     always safe.",
                )
                .takes::<ReportsRequest<Vec<AnyReport>>>()
                .example(json!({
                    "session": "…",
                    "seen": 1,
                    "reports": [{
                        "n": 1,
                        "run": "019a8b6e-9d00-7000-8000-000000000001",
                        "turn": 1,
                        "kind": "completed",
                        "step": "create-user",
                        "attempt": 1,
                        "output": {"id": 17},
                        "tookMs": 1.5,
                    }],
                }))
                .answers::<Messages>(200),
            http::reports,
        )
        .guarded(
            Serve,
            Method::GET,
            "/v1/worker/socket",
            doc("workers", "Connect a worker over a WebSocket")
                .about(
                    "The same as sessions, polls and reports, one JSON object per text frame. The worker first sends \
                     `{\"hello\": …}` or `{\"resume\": {session, seen, capacity}}`, and the server responds with \
                     `{\"welcome\": …}`, `{\"gone\": …}` or `{\"problem\": …}`. Then the worker sends \
                     `{seen, reports}`, `{capacity}`, `{\"ping\": true}` and `{\"bye\": true}`, and the server \
                     sends messages and `{\"pong\": true}`.",
                )
                .answers_nothing(101)
                .refuses(426, "`UPGRADE_REQUIRED`: the request is not a WebSocket upgrade."),
            websocket::open,
        )
        .guarded(
            Read,
            Method::GET,
            "/v1/workers",
            doc("workers", "List workers")
                .about("The workers that are connected to any node, and the workflows that they serve.")
                .answers::<Workers>(200),
            list::get,
        )
}

fn session_doc(summary: &'static str) -> Doc {
    doc("workers", summary).refuses(410, "`SESSION_GONE`: the session is unknown or has ended; open another.")
}
