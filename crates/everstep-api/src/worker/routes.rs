//! The routes of workers.

use axum::http::Method;
use serde_json::json;

use super::exchange;
use super::held::{Poll, ReportsRequest};
use super::hello::{Hello, Welcome};
use super::list::{self, Workers};
use super::message::Messages;
use super::report::AnyReport;
use super::socket;
use crate::auth::Permission::{Read, Serve};
use crate::openapi::{Doc, doc};
use crate::table::Table;

pub(super) const SESSIONS: &str = "/v1/worker/sessions";
pub(super) const POLL: &str = "/v1/worker/poll";
pub(super) const REPORTS: &str = "/v1/worker/reports";

pub(crate) fn add(table: Table) -> Table {
    table
        .guarded(
            Serve,
            Method::POST,
            SESSIONS,
            doc("workers", "Open a session of a worker")
                .about(
                    "A worker says what it serves and is given a session. Whoever knows the session's id and has a \
                     key of the workspace speaks for the worker. A session that is silent for `leaseSeconds` is given \
                     up, and its runs go to others.",
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
                .refuses(409, "`WORKFLOW_STYLE_CONFLICT`: a workflow of that name is no code."),
            exchange::open,
        )
        .guarded(
            Serve,
            Method::DELETE,
            "/v1/worker/sessions/{id}",
            session_doc("Close a session of a worker")
                .about("The worker leaves in order: its runs go to others at once.")
                .answers_nothing(204),
            exchange::close,
        )
        .guarded(
            Serve,
            Method::POST,
            POLL,
            session_doc("Ask what a worker is to do")
                .about(
                    "Held until there is something to tell besides answers to reports, at most 10 s. What was told \
                     before and not seen is told again. A worker has one poll under way; a second one ends the first. \
                     Polls and reports count against no limit of requests.",
                )
                .takes::<Poll>()
                .example(json!({"session": "…", "seen": 0, "capacity": 100, "waitMs": 10_000}))
                .answers::<Messages>(200),
            exchange::poll,
        )
        .guarded(
            Serve,
            Method::POST,
            REPORTS,
            session_doc("Send the reports of a worker")
                .about(
                    "At most 512 reports and 4 MiB, of any runs. Answered when all are in the journal: each is \
                     acknowledged, refused, or to be sent again later. Sending a report again is always safe.",
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
            exchange::reports,
        )
        .guarded(
            Serve,
            Method::GET,
            "/v1/worker/socket",
            doc("workers", "Speak with a worker over a WebSocket")
                .about(
                    "The same as sessions, polls and reports, one JSON object per text frame: `{\"hello\": …}` or \
                     `{\"resume\": {session, seen, capacity}}` first, answered by `{\"welcome\": …}`, `{\"gone\": …}` \
                     or `{\"problem\": …}`; then `{seen, reports}`, `{capacity}`, `{\"ping\": true}` and \
                     `{\"bye\": true}` one way, messages and `{\"pong\": true}` the other.",
                )
                .answers_nothing(101)
                .refuses(426, "`UPGRADE_REQUIRED`: the request is no WebSocket's."),
            socket::open,
        )
        .guarded(
            Read,
            Method::GET,
            "/v1/workers",
            doc("workers", "List workers")
                .about("The workers that are connected to any node, and what they serve.")
                .answers::<Workers>(200),
            list::get,
        )
}

fn session_doc(summary: &'static str) -> Doc {
    doc("workers", summary).refuses(410, "`SESSION_GONE`: the session is unknown or has ended; open another.")
}
